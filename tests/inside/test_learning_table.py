"""A probe's learning curve: more sentences help if there is more to learn."""

from pathlib import Path

import numpy as np

from isoscope.inside.learning_table import learning_table
from probe_material import SNAPSHOTS, planted

N, D = 200, 60
LABELS = np.arange(N) % 2


def test_more_sentences_help_and_noise_stays_at_chance(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    planted_label = draw.standard_normal((N, D)) + 0.35 * (2 * LABELS[:, None] - 1) * draw.standard_normal(D)
    arrays = {"first": np.stack([np.zeros((N, D)), planted_label]), "mean": draw.standard_normal((2, N, D))}
    run = planted(tmp_path, {one.name: arrays for one in SNAPSHOTS}, probe={"label": LABELS})
    found = learning_table(run, vectors=("first", "mean", "last"), seed=0).set_index(["vectors", "trained"])
    assert found.index.tolist() == [(name, count) for name in ("first", "mean") for count in (40, 80, 160)]
    scores = found.loc["first", "score"].tolist()
    assert scores[0] < scores[-1] > 0.85
    assert (found.loc["mean", "score"] - 0.5).abs().max() < 3 * np.sqrt(0.25 / N)
    assert found[["n", "d", "layer"]].drop_duplicates().to_numpy().tolist() == [[N, D, 1]]


def test_one_class_has_nothing_to_learn(tmp_path: Path) -> None:
    arrays = {"first": np.random.default_rng(0).standard_normal((2, N, D))}
    run = planted(tmp_path, {one.name: arrays for one in SNAPSHOTS}, probe={"label": np.zeros(N, int)})
    assert learning_table(run, vectors=("first",), seed=0).empty
