"""Hidden states equal the model's own, padding has no effect, and invalid input is refused."""

import numpy as np
import pytest
import torch
from transformers import MambaConfig, MambaModel

from fusions import FFT, make
from isoscope.base.errors import InputError
from isoscope.data.batches import collate, evaluation_batches
from isoscope.data.tokens import WordPieces
from isoscope.geometry.attention import AttentionSummary, summarise
from isoscope.models import FusionBertModel
from isoscope.states import hidden_states as passes
from probe_material import bert, chosen, gpt2, pieces


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> WordPieces:
    return pieces(tmp_path_factory.mktemp("tokenizer"))


@pytest.mark.parametrize("make", [bert, gpt2])
def test_each_layer_is_the_models_own_bit_for_bit(make, tokenizer: WordPieces) -> None:
    model, probe = make(), chosen(tokenizer)
    found = passes.hidden_states(model, probe, pad_id=tokenizer.pad_id, batch_size=8)
    lengths = probe.encoded.lengths
    for rows in evaluation_batches(lengths, batch_size=8):
        batch = collate(probe.encoded, rows, pad_id=tokenizer.pad_id)
        ids, mask = torch.from_numpy(batch.input_ids), torch.from_numpy(batch.attention_mask)
        with torch.no_grad():
            layers = model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
        for depth, layer in enumerate(layers):
            values = layer.numpy()
            assert np.array_equal(found["first"][depth, rows], values[:, 0])
            ends = values[np.arange(len(rows)), lengths[rows] - 1]
            assert np.array_equal(found["last"][depth, rows], ends)
    assert len(found["first"]) == 3


def test_padding_and_company_have_no_say(tokenizer: WordPieces) -> None:
    """With or without longer sentences in the batch, a sentence's representations are equal except for rounding."""
    model, probe = bert(), chosen(tokenizer)
    alone = passes.hidden_states(model, probe, pad_id=tokenizer.pad_id, batch_size=1)
    together = passes.hidden_states(model, probe, pad_id=tokenizer.pad_id, batch_size=32)
    assert alone.keys() == together.keys()
    for name in alone:
        np.testing.assert_allclose(alone[name], together[name], atol=2e-6, err_msg=name)
    other = passes.hidden_states(model, probe, pad_id=tokenizer.pad_id + 1, batch_size=32)
    np.testing.assert_allclose(other["mean"], together["mean"], atol=2e-6)


def test_words_are_means_over_their_tokens_and_the_mean_over_all(tokenizer: WordPieces) -> None:
    model, probe = bert(), chosen(tokenizer)
    found = passes.hidden_states(model, probe, pad_id=tokenizer.pad_id, batch_size=8)
    words = probe.words
    assert any(words.end - words.begin > 1), "some word has several tokens"
    for number in range(0, len(words.text), 7):
        ids = torch.tensor(probe.encoded.ids[words.sentence[number]].tolist())[None]
        with torch.no_grad():
            layers = model(input_ids=ids, output_hidden_states=True).hidden_states
        for depth, layer in enumerate(layers):
            span = layer[0, words.begin[number] : words.end[number]].mean(0)
            np.testing.assert_allclose(found["words"][depth, number], span, atol=2e-6)
            np.testing.assert_allclose(found["mean"][depth, words.sentence[number]], layer[0].mean(0), atol=2e-6)


def test_the_parts_of_an_additive_block_add_up(tokenizer: WordPieces) -> None:
    model, probe = bert(), chosen(tokenizer)
    found = passes.hidden_states(model, probe, pad_id=tokenizer.pad_id, batch_size=8)
    token_type = model.embeddings.token_type_embeddings.weight[0].detach().numpy()
    summed = found["block_word"] + token_type + found["block_position"]
    np.testing.assert_allclose(found["block_fused"], summed, atol=1e-6)
    centred = summed - summed.mean(1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-12)
    np.testing.assert_allclose(found["block_normed"], normed, atol=1e-4)
    assert len(summed) == probe.encoded.lengths[probe.block].sum()
    ids = np.concatenate([probe.encoded.ids[one] for one in probe.block])
    np.testing.assert_array_equal(found["block_word"], model.embeddings.word_embeddings.weight.detach().numpy()[ids])


def test_the_blocks_tokens_are_followed_through_the_layers(tokenizer: WordPieces) -> None:
    model, probe = bert(), chosen(tokenizer)
    found = passes.hidden_states(model, probe, pad_id=tokenizer.pad_id, batch_size=8)
    assert found["block_layers"].shape == (2, *found["block_word"].shape)
    at = 0
    for sentence in probe.block:
        ids = torch.tensor(probe.encoded.ids[sentence].tolist())[None]
        with torch.no_grad():
            layers = model(input_ids=ids, output_hidden_states=True).hidden_states
        for kept, layer in zip(found["block_layers"], layers[1:], strict=True):
            np.testing.assert_allclose(kept[at : at + ids.shape[1]], layer[0], atol=2e-6)
        at += ids.shape[1]


@pytest.mark.parametrize("kind", ["fractional", "learned"])
def test_positions_without_a_table_are_parts_of_the_block(kind: str, tokenizer: WordPieces) -> None:
    fusion = FFT | {"positions": kind}
    model = make(FusionBertModel, fusion, vocab_size=tokenizer.vocab_size, max_position_embeddings=64)
    probe = chosen(tokenizer)
    found = passes.hidden_states(model, probe, pad_id=tokenizer.pad_id, batch_size=8)
    np.testing.assert_allclose(np.linalg.norm(found["block_position"], axis=1), 1, rtol=1e-5)


def test_a_block_that_adds_without_layernorm_leaves_its_sum(tokenizer: WordPieces) -> None:
    model, probe = gpt2(), chosen(tokenizer)
    found = passes.hidden_states(model, probe, pad_id=tokenizer.pad_id, batch_size=8)
    np.testing.assert_allclose(found["block_fused"], found["block_word"] + found["block_position"], atol=1e-6)
    assert "block_normed" not in found


def test_sentences_with_words_changed_about_have_states_of_their_own(tokenizer: WordPieces) -> None:
    model, probe = gpt2(), chosen(tokenizer)
    found = passes.hidden_states(model, probe, pad_id=tokenizer.pad_id, batch_size=8)
    for number, ids in enumerate(probe.shifted.encoded.ids):
        with torch.no_grad():
            layers = model(torch.tensor(ids.tolist())[None], output_hidden_states=True).hidden_states
        for depth, layer in enumerate(layers):
            expected = {"first": layer[0, 0], "last": layer[0, -1], "mean": layer[0].mean(0)}
            for name, values in expected.items():
                np.testing.assert_allclose(found[f"shifted_{name}"][depth, number], values, atol=2e-6)


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
