"""Anisotropy metrics against planted explanations (a class direction, clusters, equal bars), and post-hoc maps."""

from pathlib import Path

import numpy as np
import pytest

from isoscope.metrics.matrix_scores import SCORES
from isoscope.training.anisotropy import batch_metrics, posthoc_metrics, sample_metrics
from training_runs import completed, logged

RANDOM = np.random.default_rng(0)
N, D = 200, 20
LABELS = np.arange(N) % 2


def test_a_class_direction_raises_a_1_but_not_within_classes_and_is_told_from_chance() -> None:
    cloud = RANDOM.standard_normal((N, D))
    apart = cloud + 6.0 * LABELS[:, None] * np.eye(D)[0]
    plain, found = (sample_metrics(one, LABELS, clusters=2) for one in (cloud, apart))
    assert found["a_1_centred"] > 2 * plain["a_1_centred"]
    assert found["a_1_within"] == pytest.approx(plain["a_1_within"])
    assert found["between_share"] > 0.2 > plain["between_share"]
    assert found["normal_cosine"] > 0.95
    assert found["normal_cosine_shuffled"] < 0.6
    assert plain["normal_cosine"] < 0.6
    assert found["a_1_clustered"] == pytest.approx(found["a_1_within"], rel=0.1), "k-means finds the classes"


def test_another_direction_raises_a_1_within_classes_too_and_is_not_their_normal() -> None:
    cloud = RANDOM.standard_normal((N, D)) * np.array([6.0] + [1.0] * (D - 1))
    found = sample_metrics(cloud + 2.0 * LABELS[:, None] * np.eye(D)[1], LABELS, clusters=2)
    assert found["a_1_within"] > 0.5
    assert found["normal_cosine"] < 0.5


def test_three_classes_have_the_direction_in_which_their_means_differ_most() -> None:
    of = np.arange(90) % 3
    cloud = 0.01 * RANDOM.standard_normal((90, 5)) + of[:, None] * np.eye(5)[2]
    assert sample_metrics(cloud, of, clusters=3)["normal_cosine"] == pytest.approx(1.0, abs=1e-3)


def test_bars_are_of_classes_and_follow_the_scale() -> None:
    corners = np.eye(N)[:, :N]
    found = sample_metrics(3.0 * corners, LABELS, clusters=2)
    assert [found["bar_mean"], found["bar_longest"]] == pytest.approx([3.0 * np.sqrt(2)] * 2)
    assert found["bar_evenness"] == pytest.approx(1.0)
    assert found["radius"] == pytest.approx(3.0 * np.sqrt(1 - 1 / N))


@pytest.mark.parametrize("cloud", [np.ones((8, 3)), np.zeros((8, 3)), np.eye(4), np.full((4, 3), np.nan)])
def test_a_collapsed_cloud_has_fewer_figures_but_only_numbers(cloud: np.ndarray) -> None:
    found = sample_metrics(cloud, np.arange(len(cloud)) % 2, clusters=3)
    assert found["n"] == len(cloud)
    assert np.isfinite(list(found.values())).all()
    assert np.isfinite(cloud).all() or batch_metrics(cloud) == found == {"n": 4.0}


def test_clusters_are_seen_beside_a_cloud_without_any() -> None:
    """K-means lowers a₁ of structureless data, too: it is as low as its null there, and far below it for clusters."""
    random = np.random.default_rng(5)
    labels = np.arange(400) % 2
    plain = random.standard_normal((400, 16)) * np.r_[6.0, np.ones(15)]
    found = sample_metrics(plain, labels, clusters=5)
    assert found["a_1_clustered"] < 0.5 * found["a_1_centred"]
    assert found["a_1_clustered"] == pytest.approx(found["a_1_clustered_null"], abs=0.05)
    centres = 6.0 * random.standard_normal((5, 16))
    grouped = sample_metrics(centres[np.arange(400) % 5] + random.standard_normal((400, 16)), labels, clusters=5)
    assert grouped["a_1_clustered"] < 0.5 * grouped["a_1_clustered_null"]
    assert sample_metrics(plain, labels, clusters=5) == found, "the same draw each time"


HALF, WIDTH = 600, 24


def cloud(common: float, sd: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Two classes along one axis, and independent noise of size `common` along another axis."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 2 * HALF)
    points = random.standard_normal((2 * HALF, WIDTH)) * sd
    points[:, 0] += 2.0 * labels - 1.0
    points[:, 1] += common * random.standard_normal(2 * HALF)
    return points, labels


def test_each_map_does_what_it_says() -> None:
    points, labels = cloud(common=20.0)
    found = posthoc_metrics(points, labels)
    assert found["untouched/a_1"] > 0.95
    assert found["all_but_the_top/a_1"] < 0.5
    assert found["whitened/a_1"] < 2 / WIDTH
    assert found["untouched/n"] == HALF
    assert found["whitened/directions"] == WIDTH
    assert found["chance"] == max((labels == 0).mean(), (labels == 1).mean())
    assert {f"untouched/ridge_{score}" for score in SCORES} <= set(found)


def test_neighbours_see_small_classes_once_directions_weigh_alike_and_a_linear_probe_always_does() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 2 * HALF)
    points = 10.0 * random.standard_normal((2 * HALF, 5))
    points[:, 0] = 2.0 * labels - 1.0 + 0.1 * random.standard_normal(2 * HALF)
    hidden = posthoc_metrics(points, labels)
    assert hidden["untouched/neighbour_accuracy"] < 0.7
    assert hidden["whitened/neighbour_accuracy"] > 0.9
    for laid in ("untouched", "all_but_the_top", "whitened"):
        assert hidden[f"{laid}/ridge_accuracy"] > 0.97
    seen = posthoc_metrics(*cloud(common=0.0))
    assert seen["untouched/neighbour_accuracy"] > 0.97
    for probe in ("ridge", "neighbour"):  # where the classes are the top, they go with it
        assert seen[f"all_but_the_top/{probe}_accuracy"] < 0.7
        assert abs(seen[f"all_but_the_top/{probe}_matthews"]) < 0.4


def test_labels_of_no_meaning_are_read_at_chance() -> None:
    points, labels = cloud(common=1.0)
    found = posthoc_metrics(points, np.random.default_rng(1).permutation(labels))
    for name, value in found.items():
        if name.endswith("accuracy"):
            assert value == pytest.approx(0.5, abs=0.08), name


def test_what_one_half_has_learned_by_heart_is_not_asked_of_it() -> None:
    """With more dimensions than points a probe knows its own half without error, and of the other nothing."""
    random = np.random.default_rng(2)
    points, labels = random.standard_normal((120, 400)), random.integers(0, 2, 120)
    assert posthoc_metrics(points, labels)["untouched/ridge_accuracy"] < 0.65


def test_degenerate_clouds() -> None:
    labels = np.arange(80) % 2
    same = posthoc_metrics(np.ones((80, 5)), labels)
    assert not any(name.startswith(("whitened", "all_but")) for name in same)
    assert posthoc_metrics(np.full((80, 5), np.nan), labels) == {}
    assert posthoc_metrics(np.ones((3, 5)), np.array([0, 0, 1])) == {}
    line = posthoc_metrics(np.outer(np.arange(80.0), np.ones(5)), labels)
    assert line["whitened/a_1"] == pytest.approx(1.0)
    assert not any(name.startswith("all_but") for name in line), "nothing would be left"


def test_only_a_run_that_watches_has_points_to_lay_maps_on(tmp_path: Path) -> None:
    watch = {"layer": -1, "vectors": "first", "sample": 20, "clusters": 2}
    plain, watching = (completed(tmp_path / str(one), watch=one and watch) for one in (None, 1))
    assert logged(watching, "posthoc/untouched/n") == [10]
    assert not [name for name, *_ in plain.log.points if name.startswith("posthoc/")]


def test_shares_are_those_of_squared_singular_values() -> None:
    cloud = RANDOM.standard_normal((30, 8)) + 1.0
    found = batch_metrics(cloud)
    raw, centred = (np.linalg.svd(one, compute_uv=False) ** 2 for one in (cloud, cloud - cloud.mean(0)))
    for k in range(3):
        assert found[f"a_{k + 1}"] == pytest.approx(raw[k] / raw.sum())
        assert found[f"a_{k + 1}_centred"] == pytest.approx(centred[k] / centred.sum())
    assert found["n"] == 30


def test_a_half_of_one_point_has_no_maps() -> None:
    for rows in (2, 3):
        points = np.random.default_rng(0).standard_normal((rows, 4))
        assert posthoc_metrics(points, np.zeros(rows, int)) == {}
