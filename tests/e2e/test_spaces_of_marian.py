"""`isoscope spaces` of BERT and a translation model in Marian's format (opus-mt), the pair of Vázquez et al. 2021.

The published weights are not at hand: the model has their architecture, and random weights.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import MarianConfig, MarianModel, MarianTokenizer

from isoscope.data import tokens
from isoscope.data.word_table import word_table
from isoscope.models.encoder import load_encoder
from isoscope.states.word_space import Space, write_space
from marian_material import write_pieces
from probe_material import bert, pieces, sentences

TEXTS = [*dict.fromkeys(sentences()["sentence"].to_pylist())]
OPUS: dict[str, Any] = {
    "activation_function": "swish",
    "add_final_layer_norm": False,
    "normalize_before": False,
    "scale_embedding": True,
    "static_position_embeddings": True,
}
"""The options of opus-mt-en-de's config.json that shape the encoder."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian")
    bert().save_pretrained(folder / "bert")
    pieces(folder / "bert")
    (folder / "opus").mkdir()
    write_pieces(folder / "opus", TEXTS, size=60)
    size = tokens.load(folder / "opus").vocab_size
    ids = {"pad_token_id": size - 1, "decoder_start_token_id": size - 1, "eos_token_id": 0, "forced_eos_token_id": 0}
    shape = {f"{side}_{what}": 2 for side in ("encoder", "decoder") for what in ("layers", "attention_heads")}
    torch.manual_seed(3)
    config = MarianConfig(vocab_size=size, d_model=16, max_position_embeddings=64, **shape, **ids, **OPUS)
    MarianModel(config).save_pretrained(folder / "opus")
    (folder / "texts.txt").write_text("\n".join(TEXTS), "utf-8")
    return folder


def test_words_are_the_means_of_the_pieces_that_the_slow_tokenizer_gives(place: Path, tmp_path: Path) -> None:
    model, table = load_encoder(place / "opus"), word_table(TEXTS, occurrences=600, per_sentence=25, seed=0)
    write_space(tmp_path, model, tokens.load(place / "opus"), table, pooling="mean", max_length=64, batch_size=7)
    space = Space(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it recommends sacremoses
        slow = MarianTokenizer.from_pretrained(place / "opus")
    whole = MarianModel.from_pretrained(place / "opus").eval()
    every = np.ones(len(table.rows), bool)
    seen = 0
    for number, text in enumerate(table.texts):
        encoding = slow(text, return_tensors="pt")
        names = slow.convert_ids_to_tokens(encoding["input_ids"][0])
        word_of = np.cumsum([name.startswith("▁") for name in names]) - 1
        with torch.no_grad():
            states = whole.encoder(**encoding, output_hidden_states=True).hidden_states
        own = np.flatnonzero((table.rows["sentence"] == number).to_numpy())
        for row in own:
            word = text[: table.rows["begin"][row]].count(" ")
            rows = [place for place, of in enumerate(word_of[:-1]) if of == word]  # </s> is last
            for layer, found in enumerate(states):
                expected = found[0, rows].mean(0).numpy()
                np.testing.assert_allclose(space.layer(layer, every)[row], expected, atol=1e-5)
            seen += len(rows) > 1
    assert seen > 20
    weights = whole.encoder.embed_tokens.weight.detach().numpy()
    assert 0 < np.abs(space.layer(-1, every)).max() <= np.abs(weights).max() * 4, "the word table is scaled or not"
