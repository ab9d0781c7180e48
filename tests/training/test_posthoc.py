"""Maps after the fact: what they promise of spectra, and what readers see of classes behind a common direction."""

from pathlib import Path

import numpy as np
import pytest

from isoscope.training.posthoc import posthoc, posthoc_figures
from training_runs import make_loop

N, WIDTH = 600, 24


def clouds(common: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Two classes along one axis, and noise of size `common` along another that has nothing to do with them."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 2 * N)
    points = random.standard_normal((2 * N, WIDTH)) * 0.3
    points[:, 0] += 2.0 * labels - 1.0
    points[:, 1] += common * random.standard_normal(2 * N)
    return points[:N], labels[:N], points[N:], labels[N:]


def test_each_map_does_what_it_says() -> None:
    reference, known, points, labels = clouds(common=20.0)
    found = posthoc_figures(reference, known, points, labels)
    assert found["untouched/a_1"] > 0.95
    assert found["all_but_the_top/a_1"] < 0.5
    assert found["whitened/a_1"] < 2 / WIDTH
    assert found["untouched/n"] == N
    own = posthoc_figures(reference, known, reference, known)
    assert own["whitened/a_1_centred"] == pytest.approx(1 / WIDTH)


def test_neighbours_see_small_classes_once_directions_weigh_alike_and_a_linear_reader_always_does() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 2 * N)
    points = 10.0 * random.standard_normal((2 * N, 5))
    points[:, 0] = 2.0 * labels - 1.0 + 0.1 * random.standard_normal(2 * N)
    hidden = posthoc_figures(points[:N], labels[:N], points[N:], labels[N:])
    assert hidden["untouched/neighbour_accuracy"] < 0.7
    assert hidden["whitened/neighbour_accuracy"] > 0.9
    for laid in ("untouched", "all_but_the_top", "whitened"):
        assert hidden[f"{laid}/ridge_accuracy"] > 0.97
    seen = posthoc_figures(*clouds(common=0.0))
    assert seen["untouched/neighbour_accuracy"] > 0.97
    assert seen["all_but_the_top/neighbour_accuracy"] < 0.7, "where the classes are the top, they go with it"
    assert seen["all_but_the_top/ridge_accuracy"] < 0.7


def test_labels_of_no_meaning_are_read_at_chance() -> None:
    reference, known, points, labels = clouds(common=1.0)
    random = np.random.default_rng(1)
    found = posthoc_figures(reference, random.permutation(known), points, random.permutation(labels))
    for name, value in found.items():
        if name.endswith("accuracy"):
            assert value == pytest.approx(0.5, abs=0.08), name


def test_degenerate_clouds() -> None:
    known = np.arange(40) % 2
    same = np.ones((40, 5))
    found = posthoc_figures(same, known, same, known)
    assert not any(name.startswith(("whitened", "all_but")) for name in found)
    assert posthoc_figures(np.full((40, 5), np.nan), known, same, known) == {}
    line = np.outer(np.arange(40.0), np.ones(5))
    found = posthoc_figures(line, known, line, known)
    assert found["whitened/a_1"] == pytest.approx(1.0)
    assert not any(name.startswith("all_but") for name in found), "nothing would be left"


def test_a_run_that_watches_nothing_has_none(tmp_path: Path) -> None:
    loop = make_loop(tmp_path / "plain")
    assert posthoc(loop.scorer, loop.train) == {}
    watching = make_loop(tmp_path / "watch", watch={"layer": -1, "vectors": "first", "sample": 20, "clusters": 2})
    found = posthoc(watching.scorer, watching.train)
    assert found["untouched/n"] == 30
    assert 0 < found["whitened/a_1"] < 1
