"""Hidden states equal the model's own, padding has no effect, and invalid input is refused."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from transformers import MambaConfig, MambaModel

from fusions import FFT, make
from isoscope.base.errors import InputError
from isoscope.data.batches import collate, evaluation_batches
from isoscope.data.probe import ProbeSet
from isoscope.data.tokens import WordPieces
from isoscope.geometry.attention import AttentionSummary, summarise
from isoscope.geometry.moments import Floats
from isoscope.models import FusionBertModel
from isoscope.states import hidden_states as passes
from probe_material import bert, chosen, gpt2, pieces


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> WordPieces:
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
def held(tokenizer: WordPieces) -> dict[str, Held]:
    probe, models = chosen(tokenizer), {"bert": bert(), "gpt2": gpt2()}
    options = {"pad_id": tokenizer.pad_id, "batch_size": 8}
    return {name: Held(one, probe, passes.hidden_states(one, probe, **options)) for name, one in models.items()}


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_each_layer_is_the_models_own_bit_for_bit(kind: str, held: dict[str, Held], tokenizer: WordPieces) -> None:
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


def test_padding_and_company_have_no_say(held: dict[str, Held], tokenizer: WordPieces) -> None:
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
def test_positions_without_a_table_are_parts_of_the_block(kind: str, tokenizer: WordPieces) -> None:
    fusion = FFT | {"positions": kind}
    model = make(FusionBertModel, fusion, vocab_size=tokenizer.vocab_size, max_position_embeddings=64)
    probe = chosen(tokenizer)
    found = passes.hidden_states(model, probe, pad_id=tokenizer.pad_id, batch_size=8)
    np.testing.assert_allclose(np.linalg.norm(found["block_position"], axis=1), 1, rtol=1e-5)


def test_a_model_without_attention_is_refused(tokenizer: WordPieces) -> None:
    model = MambaModel(MambaConfig(vocab_size=200, hidden_size=16, num_hidden_layers=2, state_size=4))
    with pytest.raises(InputError, match="attention: MambaModel returns no maps"):
        passes.attention(model, chosen(tokenizer), pad_id=tokenizer.pad_id, batch_size=8)


def test_attention_is_summarised_without_padding(tokenizer: WordPieces) -> None:
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


def test_weights_that_are_no_numbers_are_refused(tokenizer: WordPieces) -> None:
    model = bert()
    with torch.no_grad():
        model.encoder.layer[1].output.dense.weight[0, 0] = float("nan")
    with pytest.raises(InputError, match="NaN or infinity"):
        passes.hidden_states(model, chosen(tokenizer), pad_id=tokenizer.pad_id, batch_size=8)
