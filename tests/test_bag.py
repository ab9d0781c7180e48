"""Bags of untrained vectors are compared by rank (docs/results/remedies_bag.py)."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from isoscope.models.build import from_scratch

FOLDER = Path(__file__).parents[1] / "docs/results"


@pytest.fixture(scope="module")
def bag() -> ModuleType:
    sys.path.insert(0, str(FOLDER))
    try:
        import remedies_bag
    finally:
        sys.path.remove(str(FOLDER))
    return remedies_bag


@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_pairs_are_ranked_by_their_cosine_and_a_common_mean_is_taken_away(bag: ModuleType, shift: float) -> None:
    n = 500
    angles = np.random.default_rng(0).uniform(0, np.pi, n)
    first = np.tile([[1.0, 0.0]], (n, 1))
    second = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rows = np.concatenate([first, second, -first, -second])  # of mean 0
    grades = np.concatenate([-angles, -angles])
    order = np.r_[0:n, 2 * n : 3 * n, n : 2 * n, 3 * n : 4 * n]
    found = dict(bag.scores(rows[order] + shift, grades, 0))
    assert found["spearman_centred"] > 0.9999  # each pair stands there twice, up to rounding
    assert (found["spearman"] > 0.9999) == (shift == 0.0)
    assert abs(found["spearman_control"]) < 0.15


def test_a_bag_is_the_mean_over_inner_tokens_whatever_the_batch(bag: ModuleType) -> None:
    model = from_scratch(
        family="bert", layers=1, hidden_size=8, heads=2, intermediate_size=8, max_positions=12, dropout=0.1,
        attention_dropout=0.1, init_std=1.0, initializer_range=0.02, vocab_size=20, pad_id=0,
        fusion={"kind": "additive"}, labels=("0", "1"), seed=0, activation="gelu", norm="post", positions="learned",
    ).eval()  # fmt: skip
    ids = [[1, 5, 6, 7, 2], [1, 9, 2], [1, 4, 4, 8, 3, 2]]
    found = bag.bags(model, [SimpleNamespace(ids=one) for one in ids])
    table = model.base_model.embeddings.word_embeddings.weight.detach()
    right = torch.stack([table[one[1:-1]].mean(0) for one in ids]).double().numpy()
    assert found["word table"] == pytest.approx(right, abs=1e-6)
    alone = bag.bags(model, [SimpleNamespace(ids=one) for one in ids], batch=1)
    assert all(found[name] == pytest.approx(alone[name], abs=1e-5) for name in found)
