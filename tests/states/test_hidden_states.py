"""Hidden states equal the model's own, padding has no effect, and invalid input is refused."""

from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
import torch
from transformers import MambaConfig, MambaModel

from fusions import FFT, make
from isoscope.base.errors import InputError
from isoscope.data.batches import collate, evaluation_batches
from isoscope.data.probe import ProbeSet
from isoscope.data.tokens import Tokenizer
from isoscope.geometry.attention import AttentionSummary, summarise
from isoscope.geometry.moments import Floats
from isoscope.models import FusionBertModel
from isoscope.states import hidden_states as passes
from isoscope.states.filled_arrays import FilledArrays
from probe_material import bert, chosen, gpt2, pieces


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return pieces(tmp_path_factory.mktemp("tokenizer"))


class Held(NamedTuple):
    """A model, the probe set, and what is kept of it."""

    model: Any
    probe: ProbeSet
    found: passes.Arrays

    def layers(self, ids: Any) -> Floats:
        """Return the model's own states of a sentence alone, `[L + 1, T, D]`."""
        with torch.no_grad():
            states = self.model(input_ids=torch.tensor(ids.tolist())[None], output_hidden_states=True).hidden_states
        return torch.cat(states).numpy()


@pytest.fixture(scope="module")
def held(tokenizer: Tokenizer) -> dict[str, Held]:
    probe, models = chosen(tokenizer), {"bert": bert(), "gpt2": gpt2()}
    options = {"pad_id": tokenizer.pad_id, "batch_size": 8}
    return {name: Held(one, probe, passes.hidden_states(one, probe, **options)) for name, one in models.items()}


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_each_layer_is_the_models_own_bit_for_bit(kind: str, held: dict[str, Held], tokenizer: Tokenizer) -> None:
    model, probe, found = held[kind]
    lengths = probe.encoded.lengths
    for rows in evaluation_batches(lengths, batch_size=8):
        batch = collate(probe.encoded, rows, pad_id=tokenizer.pad_id)
        ids, mask = torch.from_numpy(batch.input_ids), torch.from_numpy(batch.attention_mask)
        with torch.no_grad():
            layers = torch.stack(model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states)
        assert np.array_equal(found["first"][:, rows], layers[:, :, 0])
        assert np.array_equal(found["last"][:, rows], layers[:, np.arange(len(rows)), lengths[rows] - 1])
    assert len(found["first"]) == 3


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_states_are_those_of_each_sentence_alone(kind: str, held: dict[str, Held]) -> None:
    """Words are means over their tokens; sentences with two words swapped have states of their own."""
    one = held[kind]
    words, found = one.probe.words, one.found
    assert any(words.end - words.begin > 1), "some word has several tokens"
    for number in range(0, len(words.text), 7):
        sentence, span = words.sentence[number], slice(words.begin[number], words.end[number])
        layers = one.layers(one.probe.encoded.ids[sentence])
        np.testing.assert_allclose(found["words"][:, number], layers[:, span].mean(1), atol=2e-6)
        np.testing.assert_allclose(found["mean"][:, sentence], layers.mean(1), atol=2e-6)
    for number, ids in enumerate(one.probe.shifted.encoded.ids):
        layers = one.layers(ids)
        for name, expected in {"first": layers[:, 0], "last": layers[:, -1], "mean": layers.mean(1)}.items():
            np.testing.assert_allclose(found[f"shifted_{name}"][:, number], expected, atol=2e-6)
    block = np.concatenate([one.layers(one.probe.encoded.ids[sentence])[1:] for sentence in one.probe.block], axis=1)
    np.testing.assert_allclose(found["block_layers"], block, atol=2e-6)


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
def test_words_of_many_lengths_are_means_of_their_tokens_bit_for_bit(pooling: Any, held: dict[str, Held]) -> None:
    random, rows = np.random.default_rng(0), np.array([5, 2, 9])
    layers = torch.from_numpy(random.standard_normal((3, 3, 12, 16)).astype(np.float32))
    begin = random.integers(0, 5, 40)
    words = held["bert"].probe.words._replace(
        sentence=random.integers(0, 12, 40), begin=begin, end=begin + random.integers(1, 8, 40), text=["word"] * 40
    )
    chosen_words, found = passes.word_means(layers, words, rows, pooling)
    assert chosen_words.tolist() == [word for word in range(40) if words.sentence[word] in rows]
    for word, own in zip(chosen_words, found.unbind(1), strict=True):
        span = layers[:, [*rows].index(words.sentence[word]), words.begin[word] : words.end[word]]
        assert torch.equal(own, {"mean": span.mean(1), "first": span[:, 0], "last": span[:, -1]}[pooling])


class OnCard:
    """A result on a card, whose copy arrives when its event is waited for."""

    is_cuda = True
    under_way: ClassVar[list[tuple[torch.Tensor, torch.Tensor]]] = []

    def __init__(self, *values: float) -> None:
        self.values = torch.tensor(values)[:, None]

    def float(self) -> "OnCard":
        return self

    def to(self, device: str, *, non_blocking: bool) -> torch.Tensor:
        assert (device, non_blocking) == ("cpu", True)
        copied = torch.full_like(self.values, torch.nan)
        self.under_way.append((copied, self.values))
        return copied


def test_a_result_of_a_card_is_read_when_it_has_arrived_and_not_before_the_next_batch_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[int] = []

    def record_event() -> Any:
        copies, number = [*OnCard.under_way], len(waited)

        def arrive() -> None:
            waited.append(number)
            for copied, values in copies:
                copied.copy_(values)

        return SimpleNamespace(synchronize=arrive)

    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(record_event=record_event))
    found = FilledArrays()
    for number in range(3):
        found.put("first", 6, [number, 3 + number], OnCard(number, 10.0 * number))  # type: ignore[arg-type]
        found.next_batch()
        assert len(waited) == max(number, 0), "the batch before it"
    assert found.whole()["first"][:, 0].tolist() == [0, 1, 2, 0, 10, 20]
    found.put("first", 6, [0], OnCard(np.inf))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="NaN or infinity"):
        found.whole()


@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
def test_states_on_a_device_are_those_of_the_cpu(held: dict[str, Held], tokenizer: Tokenizer, device: str) -> None:
    found = passes.hidden_states(bert().to(device), held["bert"].probe, pad_id=tokenizer.pad_id, batch_size=8)
    for name, values in held["bert"].found.items():
        np.testing.assert_allclose(found[name], values, atol=1e-4, err_msg=name)


def test_padding_and_company_have_no_say(held: dict[str, Held], tokenizer: Tokenizer) -> None:
    """With or without longer sentences in the batch, a sentence's representations are equal except for rounding."""
    model, probe, _ = held["bert"]
    alone = passes.hidden_states(model, probe, pad_id=tokenizer.pad_id, batch_size=1)
    together = passes.hidden_states(model, probe, pad_id=tokenizer.pad_id, batch_size=32)
    assert alone.keys() == together.keys()
    for name in alone:
        np.testing.assert_allclose(alone[name], together[name], atol=2e-6, err_msg=name)
    other = passes.hidden_states(model, probe, pad_id=tokenizer.pad_id + 1, batch_size=32)
    np.testing.assert_allclose(other["mean"], together["mean"], atol=2e-6)


def test_the_parts_of_a_block_add_up(held: dict[str, Held]) -> None:
    """BERT's with the token type, before its LayerNorm; GPT-2's block has no LayerNorm and leaves the sum."""
    model, probe, found = held["bert"]
    token_type = model.embeddings.token_type_embeddings.weight[0].detach().numpy()
    summed = found["block_word"] + token_type + found["block_position"]
    np.testing.assert_allclose(found["block_fused"], summed, atol=1e-6)
    centred = summed - summed.mean(1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-12)
    np.testing.assert_allclose(found["block_normed"], normed, atol=1e-4)
    assert len(summed) == probe.encoded.lengths[probe.block].sum()
    ids = np.concatenate([probe.encoded.ids[one] for one in probe.block])
    np.testing.assert_array_equal(found["block_word"], model.embeddings.word_embeddings.weight.detach().numpy()[ids])
    plain = held["gpt2"].found
    np.testing.assert_allclose(plain["block_fused"], plain["block_word"] + plain["block_position"], atol=1e-6)
    assert "block_normed" not in plain


@pytest.mark.parametrize("kind", ["fractional", "learned"])
def test_positions_without_a_table_are_parts_of_the_block(kind: str, tokenizer: Tokenizer) -> None:
    fusion = FFT | {"positions": kind}
    model = make(FusionBertModel, fusion, vocab_size=tokenizer.vocab_size, max_position_embeddings=64)
    probe = chosen(tokenizer)
    found = passes.hidden_states(model, probe, pad_id=tokenizer.pad_id, batch_size=8)
    np.testing.assert_allclose(np.linalg.norm(found["block_position"], axis=1), 1, rtol=1e-5)


def test_a_model_without_attention_is_refused(tokenizer: Tokenizer) -> None:
    model = MambaModel(MambaConfig(vocab_size=200, hidden_size=16, num_hidden_layers=2, state_size=4))
    with pytest.raises(InputError, match="attention: MambaModel returns no maps"):
        passes.attention(model, chosen(tokenizer), pad_id=tokenizer.pad_id, batch_size=8)


def test_attention_is_summarised_without_padding(tokenizer: Tokenizer) -> None:
    model, probe = bert(), chosen(tokenizer)
    before = model.config._attn_implementation
    found = passes.attention(model, probe, pad_id=tokenizer.pad_id, batch_size=4)
    assert model.config._attn_implementation == before
    model.set_attn_implementation("eager")
    for place, sentence in enumerate(probe.attended):
        ids = torch.tensor(probe.encoded.ids[sentence].tolist())[None]
        with torch.no_grad():
            maps = np.stack([one[0].numpy() for one in model(input_ids=ids, output_attentions=True).attentions])
        for name, values in zip(AttentionSummary._fields, summarise(maps), strict=True):
            np.testing.assert_allclose(found[f"attention_{name}"][..., place], values, atol=1e-5)


def test_rounded_attention_is_that_of_fp32_except_for_rounding(tokenizer: Tokenizer) -> None:
    """Attention weights in bf16 do not sum to 1."""
    model, probe = bert(), chosen(tokenizer)
    options: Any = {"pad_id": tokenizer.pad_id, "batch_size": 4}
    whole = passes.attention(model, probe, **options)
    rounded = passes.attention(model.to(torch.bfloat16), probe, **options)
    assert whole.keys() == rounded.keys()
    for name, values in whole.items():
        np.testing.assert_allclose(rounded[name], values, atol=0.02, err_msg=name)
    maps = rounded["attention_map_0"]
    np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-6)
    sink = torch.full((1, 1, 3, 3), 0.3, dtype=torch.bfloat16)
    assert passes._summing(sink).sum(-1).max() < 0.95, "a sum that is no rounding stays"


def test_a_sentence_of_one_token_has_no_attention_and_takes_none_from_others(tokenizer: Tokenizer) -> None:
    probe = chosen(tokenizer)
    ids = [one[:1] if row == probe.attended[0] else one for row, one in enumerate(probe.encoded.ids)]
    short = probe._replace(encoded=probe.encoded._replace(ids=ids))
    options: Any = {"pad_id": tokenizer.pad_id, "batch_size": 4}
    whole, found = (passes.attention(bert(), one, **options) for one in (probe, short))
    for name in AttentionSummary._fields:
        one, other = whole[f"attention_{name}"], found[f"attention_{name}"]
        np.testing.assert_allclose(other, one[..., 1:], atol=1e-6)
    alone = probe._replace(encoded=probe.encoded._replace(ids=[one[:1] for one in probe.encoded.ids]))
    with pytest.raises(InputError, match="no sentence has two tokens"):
        passes.attention(bert(), alone, **options)


def test_weights_that_are_no_numbers_are_refused(tokenizer: Tokenizer) -> None:
    model = bert()
    with torch.no_grad():
        model.encoder.layer[1].output.dense.weight[0, 0] = float("nan")
    with pytest.raises(InputError, match="NaN or infinity"):
        passes.hidden_states(model, chosen(tokenizer), pad_id=tokenizer.pad_id, batch_size=8)
