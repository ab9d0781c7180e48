"""States of words at every layer, the word table and the final LayerNorm included, against a model's own parts."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model

from isoscope.data.tokens import Encoded
from isoscope.models import FusionBertConfig, FusionBertModel
from isoscope.states.choices import WORD_TABLE
from isoscope.states.word_space import word_states

SMALL: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 16,
}
IDS = np.random.default_rng(0).integers(4, 50, size=(3, 7))


def words() -> Any:
    """Two words of each of three sentences: tokens 1 and 2, and token 4."""
    ids, types = [row.astype(np.int32) for row in IDS], [np.zeros(7, np.int32)] * 3
    encoded = Encoded(ids, types, np.zeros(3, np.int64), 0)
    return SimpleNamespace(
        encoded=encoded, sentence=np.repeat(np.arange(3), 2), begin=np.tile([1, 4], 3), end=np.tile([3, 5], 3)
    )


def model_of(kind: str) -> Any:
    torch.manual_seed(1)
    if kind == "gpt2":
        own = {"bos_token_id": 0, "eos_token_id": 0}
        return GPT2Model(GPT2Config(vocab_size=50, n_embd=8, n_layer=2, n_head=2, n_positions=16, **own)).eval()
    if kind == "pre":
        return FusionBertModel(
            FusionBertConfig(**SMALL, fusion={"kind": "additive"}, norm="pre"), add_pooling_layer=False
        ).eval()
    return BertModel(BertConfig(**SMALL), add_pooling_layer=False).eval()


@pytest.mark.parametrize("kind", ["bert", "gpt2", "pre"])
def test_layers_are_the_models_own_with_the_word_table_before_them(kind: str) -> None:
    model = model_of(kind)
    found = word_states(model, words(), whole=True, pad_id=0, batch_size=2)
    assert found.layers == [WORD_TABLE, 0, 1, 2, *([3] if kind != "bert" else [])]
    with torch.no_grad():
        states = model(torch.from_numpy(IDS), output_hidden_states=True).hidden_states
    table = model.get_input_embeddings()(torch.from_numpy(IDS)).detach()
    for layer, expected in ((WORD_TABLE, table), (0, states[0]), (1, states[1]), (found.layers[-1], states[-1])):
        own = found.values[found.layers.index(layer)].reshape(3, 2, -1)
        np.testing.assert_allclose(own[:, 0], expected[:, 1:3].mean(1), atol=1e-6)
        np.testing.assert_allclose(own[:, 1], expected[:, 4], atol=1e-6)


@pytest.mark.parametrize("kind", ["gpt2", "pre"])
def test_the_final_norm_maps_the_layer_before_it(kind: str) -> None:
    model = model_of(kind)
    norm = model.ln_f if kind == "gpt2" else model.encoder.LayerNorm
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2.0)
        found = word_states(model, words(), pooling="first", whole=True, pad_id=0, batch_size=2)
        before, after = (torch.from_numpy(found.values[found.layers.index(layer)]) for layer in (2, 3))
        np.testing.assert_allclose(norm(before), after, atol=1e-5)
    assert not np.allclose(before, after, atol=0.1)


def test_without_them_there_are_the_usual_layers() -> None:
    found = word_states(model_of("pre"), words(), pad_id=0, batch_size=2)
    assert found.layers == [0, 1, 2]
