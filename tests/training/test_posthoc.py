"""Post-hoc maps: their effect on spectra, and what probes learn of classes behind large directions."""

from pathlib import Path

import numpy as np
import pytest

from isoscope.metrics.matrix_scores import SCORES
from isoscope.training.anisotropy import posthoc_figures
from training_runs import make_loop

N, WIDTH = 600, 24


def cloud(common: float, sd: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Two classes along one axis, and independent noise of size `common` along another axis."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 2 * N)
    points = random.standard_normal((2 * N, WIDTH)) * sd
    points[:, 0] += 2.0 * labels - 1.0
    points[:, 1] += common * random.standard_normal(2 * N)
    return points, labels


def test_each_map_does_what_it_says() -> None:
    points, labels = cloud(common=20.0)
    found = posthoc_figures(points, labels)
    assert found["untouched/a_1"] > 0.95
    assert found["all_but_the_top/a_1"] < 0.5
    assert found["whitened/a_1"] < 2 / WIDTH
    assert found["untouched/n"] == N
    assert found["whitened/directions"] == WIDTH
    assert found["chance"] == max((labels == 0).mean(), (labels == 1).mean())
    assert {f"untouched/ridge_{score}" for score in SCORES} <= set(found)


def test_neighbours_see_small_classes_once_directions_weigh_alike_and_a_linear_probe_always_does() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 2 * N)
    points = 10.0 * random.standard_normal((2 * N, 5))
    points[:, 0] = 2.0 * labels - 1.0 + 0.1 * random.standard_normal(2 * N)
    hidden = posthoc_figures(points, labels)
    assert hidden["untouched/neighbour_accuracy"] < 0.7
    assert hidden["whitened/neighbour_accuracy"] > 0.9
    for laid in ("untouched", "all_but_the_top", "whitened"):
        assert hidden[f"{laid}/ridge_accuracy"] > 0.97
    seen = posthoc_figures(*cloud(common=0.0))
    assert seen["untouched/neighbour_accuracy"] > 0.97
    for probe in ("ridge", "neighbour"):  # where the classes are the top, they go with it
        assert seen[f"all_but_the_top/{probe}_accuracy"] < 0.7
        assert abs(seen[f"all_but_the_top/{probe}_matthews"]) < 0.4


def test_labels_of_no_meaning_are_read_at_chance() -> None:
    points, labels = cloud(common=1.0)
    found = posthoc_figures(points, np.random.default_rng(1).permutation(labels))
    for name, value in found.items():
        if name.endswith("accuracy"):
            assert value == pytest.approx(0.5, abs=0.08), name


def test_what_one_half_has_learned_by_heart_is_not_asked_of_it() -> None:
    """With more dimensions than points a probe knows its own half without error, and of the other nothing."""
    random = np.random.default_rng(2)
    points, labels = random.standard_normal((120, 400)), random.integers(0, 2, 120)
    assert posthoc_figures(points, labels)["untouched/ridge_accuracy"] < 0.65


def test_degenerate_clouds() -> None:
    labels = np.arange(80) % 2
    same = posthoc_figures(np.ones((80, 5)), labels)
    assert not any(name.startswith(("whitened", "all_but")) for name in same)
    assert posthoc_figures(np.full((80, 5), np.nan), labels) == {}
    assert posthoc_figures(np.ones((3, 5)), np.array([0, 0, 1])) == {}
    line = posthoc_figures(np.outer(np.arange(80.0), np.ones(5)), labels)
    assert line["whitened/a_1"] == pytest.approx(1.0)
    assert not any(name.startswith("all_but") for name in line), "nothing would be left"


def test_only_a_run_that_watches_has_points_to_lay_maps_on(tmp_path: Path) -> None:
    plain = make_loop(tmp_path / "plain")
    watching = make_loop(tmp_path / "watch", watch={"layer": -1, "vectors": "first", "sample": 20, "clusters": 2})
    for loop in (plain, watching):
        loop.fit()
        loop.test(1)
    found = {name: value for name, value, *_ in watching.log.points if name.startswith("posthoc/")}
    assert found["posthoc/untouched/n"] == 10
    assert not [name for name, *_ in plain.log.points if name.startswith("posthoc/")]
