"""Second moments against the singular values, analysis of variance, and sums over all quadruples."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from isoscope.geometry.moments import (
    between_share,
    centre,
    covariance_traces,
    indices,
    spectrum,
    within_classes,
)


def test_labels_count_as_the_points_do() -> None:
    assert indices(["b", "a", "b"], 3).tolist() == [1, 0, 1]
    assert indices([float("nan"), 1.0, float("nan")], 3).tolist() == [1, 0, 1]


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("shape", [(7, 20), (20, 7), (5, 5), (1, 4)], ids=str)
def test_the_spectrum_is_that_of_the_singular_values(shape: tuple[int, int], centred: bool) -> None:
    points = np.random.default_rng(0).normal(2.0, 1.0, shape)
    values = np.linalg.svd(points - points.mean(0) if centred else points, compute_uv=False) ** 2
    found = spectrum(points, centred=centred)
    assert found.shape == (min(shape),)
    np.testing.assert_allclose(found, values, rtol=1e-9, atol=1e-12)
    assert (np.diff(found) <= 0).all()
    assert found.min() >= 0


def test_one_point_many_times_has_no_variance_at_all() -> None:
    points, labels = np.full((4, 5), 0.1), [1, 0, 0, 0]
    assert (points[1:] - points[1:].mean(0)).any()  # a mean is rounded
    for alike in (points, points[1:]):
        assert not centre(alike).any()
        assert not spectrum(alike).any()
    assert not within_classes(points, labels).any()
    assert np.isnan(between_share(points, labels))


def test_within_classes_no_class_has_a_mean_and_distances_stay(random: np.random.Generator) -> None:
    points, labels = random.normal(3.0, 1.0, (30, 4)), random.choice(["one", "two", "three"], 30)
    within = within_classes(points, labels)
    for one in set(labels):
        rows = labels == one
        np.testing.assert_allclose(within[rows].mean(0), 0, atol=1e-14)
        np.testing.assert_allclose(within[rows][0] - within[rows][1], points[rows][0] - points[rows][1], atol=1e-14)


def test_points_without_a_label_are_a_class_of_their_own() -> None:
    """NaN is not equal to itself, so a loop over classes would pass such points by."""
    within = within_classes([[1.0], [3.0], [10.0], [20.0]], [float("nan"), float("nan"), 1.0, 1.0])
    assert within.ravel().tolist() == [-1, 1, -5, 5]


@pytest.mark.parametrize("half", [0.0, 0.5, 3.0])
def test_the_share_between_two_classes_in_closed_form(half: float) -> None:
    points = np.array([half - 1, half + 1, -half - 1, -half + 1])[:, None] @ np.array([[0.6, 0.8]])
    assert between_share(points, [0, 0, 1, 1]) == pytest.approx(half**2 / (half**2 + 1))


def test_the_share_between_classes_is_that_of_the_analysis_of_variance(random: np.random.Generator) -> None:
    groups = [random.normal(mean, 1.0, size) for mean, size in ((0.0, 8), (0.7, 13), (0.2, 5))]
    labels = np.repeat([0, 1, 2], [len(group) for group in groups])
    share, n = between_share(np.concatenate(groups)[:, None], labels), len(labels)
    assert share / 2 / ((1 - share) / (n - 3)) == pytest.approx(stats.f_oneway(*groups).statistic)


def test_classes_and_the_share_between_them_add_up_to_the_total() -> None:
    random = np.random.default_rng(1)
    points, labels = random.normal(size=(40, 6)), random.integers(0, 4, 40)
    within = spectrum(within_classes(points, labels)).sum()
    assert within == pytest.approx((1 - between_share(points, labels)) * spectrum(points).sum())
    assert between_share(points, np.zeros(40)) == pytest.approx(0, abs=1e-15)
    assert between_share(points, np.arange(40)) == 1.0


def test_the_traces_are_means_over_all_pairs_and_quadruples_of_different_points() -> None:
    """tr Σ is E‖x − y‖² / 2, tr Σ² is E((x − y)·(z − w))² / 4; only one symmetric estimate is unbiased for all laws."""
    points = np.random.default_rng(0).exponential(size=(7, 3)) @ np.diag([1.0, 2.0, 0.5])
    first = np.mean([(points[i] - points[j]) @ (points[i] - points[j]) / 2 for i, j in permutations(range(7), 2)])
    quadruples = np.array(list(permutations(range(7), 4))).T
    x, y, z, w = (points[rows] for rows in quadruples)
    second = np.mean((((x - y) * (z - w)).sum(1)) ** 2 / 4)
    assert covariance_traces(points) == pytest.approx((first, second), rel=1e-12)
