"""Anisotropy metrics against planted explanations: a class direction, clusters, equal bars."""

import numpy as np
import pytest

from isoscope.training.anisotropy import batch_figures, sample_figures

RANDOM = np.random.default_rng(0)
N, D = 200, 20
LABELS = np.arange(N) % 2


def test_shares_are_those_of_squared_singular_values() -> None:
    cloud = RANDOM.standard_normal((30, 8)) + 1.0
    found = batch_figures(cloud)
    raw, centred = (np.linalg.svd(one, compute_uv=False) ** 2 for one in (cloud, cloud - cloud.mean(0)))
    for k in range(3):
        assert found[f"a_{k + 1}"] == pytest.approx(raw[k] / raw.sum())
        assert found[f"a_{k + 1}_centred"] == pytest.approx(centred[k] / centred.sum())
    assert found["n"] == 30


def test_a_class_direction_raises_a_1_but_not_within_classes_and_is_told_from_chance() -> None:
    cloud = RANDOM.standard_normal((N, D))
    apart = cloud + 6.0 * LABELS[:, None] * np.eye(D)[0]
    plain, found = (sample_figures(one, LABELS, clusters=2) for one in (cloud, apart))
    assert found["a_1_centred"] > 2 * plain["a_1_centred"]
    assert found["a_1_within"] == pytest.approx(plain["a_1_within"])
    assert found["between_share"] > 0.2 > plain["between_share"]
    assert found["normal_cosine"] > 0.95
    assert found["normal_cosine_shuffled"] < 0.6
    assert plain["normal_cosine"] < 0.6
    assert found["a_1_clustered"] == pytest.approx(found["a_1_within"], rel=0.1), "k-means finds the classes"


def test_another_direction_raises_a_1_within_classes_too_and_is_not_their_normal() -> None:
    cloud = RANDOM.standard_normal((N, D)) * np.array([6.0] + [1.0] * (D - 1))
    found = sample_figures(cloud + 2.0 * LABELS[:, None] * np.eye(D)[1], LABELS, clusters=2)
    assert found["a_1_within"] > 0.5
    assert found["normal_cosine"] < 0.5


def test_three_classes_have_the_direction_in_which_their_means_differ_most() -> None:
    of = np.arange(90) % 3
    cloud = 0.01 * RANDOM.standard_normal((90, 5)) + of[:, None] * np.eye(5)[2]
    assert sample_figures(cloud, of, clusters=3)["normal_cosine"] == pytest.approx(1.0, abs=1e-3)


def test_bars_are_of_classes_and_follow_the_scale() -> None:
    corners = np.eye(N)[:, :N]
    found = sample_figures(3.0 * corners, LABELS, clusters=2)
    assert [found["bar_mean"], found["bar_longest"]] == pytest.approx([3.0 * np.sqrt(2)] * 2)
    assert found["bar_evenness"] == pytest.approx(1.0)
    assert found["radius"] == pytest.approx(3.0 * np.sqrt(1 - 1 / N))


@pytest.mark.parametrize("cloud", [np.ones((8, 3)), np.zeros((8, 3)), np.eye(4)])
def test_a_collapsed_cloud_has_fewer_figures_but_only_numbers(cloud: np.ndarray) -> None:
    found = sample_figures(cloud, np.arange(len(cloud)) % 2, clusters=3)
    assert found["n"] == len(cloud)
    assert np.isfinite(list(found.values())).all()


def test_a_cloud_that_is_no_number_has_its_size_alone() -> None:
    cloud = np.full((4, 3), np.nan)
    assert batch_figures(cloud) == sample_figures(cloud, np.arange(4) % 2, clusters=2) == {"n": 4.0}


def test_clusters_are_seen_beside_a_cloud_without_any() -> None:
    """K-means lowers a₁ of structureless data, too: it is as low as its null there, and far below it for clusters."""
    random = np.random.default_rng(5)
    labels = np.arange(400) % 2
    plain = random.standard_normal((400, 16)) * np.r_[6.0, np.ones(15)]
    found = sample_figures(plain, labels, clusters=5)
    assert found["a_1_clustered"] < 0.5 * found["a_1_centred"]
    assert found["a_1_clustered"] == pytest.approx(found["a_1_clustered_null"], abs=0.05)
    centres = 6.0 * random.standard_normal((5, 16))
    grouped = sample_figures(centres[np.arange(400) % 5] + random.standard_normal((400, 16)), labels, clusters=5)
    assert grouped["a_1_clustered"] < 0.5 * grouped["a_1_clustered_null"]
    assert sample_figures(plain, labels, clusters=5) == found, "the same draw each time"
