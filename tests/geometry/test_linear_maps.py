"""Maps between spaces: planted rotations, peers, retrieval by hand and on a case that public code gets wrong."""

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes
from scipy.spatial import procrustes as peer_procrustes
from scipy.stats import ortho_group
from sklearn.linear_model import LinearRegression

from isoscope.base.errors import InputError
from isoscope.geometry.linear_maps import (
    best_ridge,
    error,
    procrustes,
    r2_by_dimension,
    retrieval,
    ridge,
)
from isoscope.geometry.moments import Floats


def cloud(n: int = 200, d: int = 6, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal((n, d)) * np.linspace(2, 0.5, d) + 1.0


def test_a_planted_rotation_scaling_and_shift_is_found() -> None:
    points, turn = cloud(), ortho_group.rvs(6, random_state=1)
    found = procrustes(points, 2.5 * points @ turn + 3.0)
    np.testing.assert_allclose(found.weights, 2.5 * turn, atol=1e-12)
    np.testing.assert_allclose(found.of(points), 2.5 * points @ turn + 3.0, atol=1e-12)


@pytest.mark.parametrize("n", [7, 10, 49])
def test_points_that_are_all_one_have_no_rotation(n: int, random: np.random.Generator) -> None:
    """Their mean is rounded, so that something would be left of them."""
    one, other = np.tile([0.1, 0.7, 1 / 3], (n, 1)), random.standard_normal((n, 3))
    with pytest.raises(InputError, match="all points are one"):
        procrustes(one, other)
    assert not procrustes(other, one).weights.any(), "the best map onto one point is that point"


def test_procrustes_is_scipys_rotation_and_leaves_its_disparity() -> None:
    one, other = cloud(), cloud(seed=1) + cloud()
    found = procrustes(one, other)
    turn, _ = orthogonal_procrustes(one - one.mean(0), other - other.mean(0))
    np.testing.assert_allclose(found.weights / np.linalg.norm(found.weights, 2), turn, atol=1e-10)
    left = ((found.of(one) - other) ** 2).sum() / ((other - other.mean(0)) ** 2).sum()
    assert left == pytest.approx(peer_procrustes(other, one)[2])


@pytest.mark.parametrize("other", [4, 9])
def test_spaces_of_unequal_width_keep_angles_of_what_is_kept(other: int) -> None:
    one = cloud()
    target = np.pad(one, ((0, 0), (0, 3))) if other == 9 else one[:, :4]
    found = procrustes(one, target)
    assert error(found.of(one), target) < (1e-20 if other == 9 else 1e-3)
    if other == 9:
        np.testing.assert_allclose(found.weights @ found.weights.T, np.eye(6), atol=1e-10)


def test_ridge_is_least_squares_without_strength_and_the_mean_with_all() -> None:
    one, other = cloud(), cloud(d=3, seed=1) + cloud()[:, :3]
    peer = LinearRegression().fit(one, other).predict(one)
    np.testing.assert_allclose(ridge(one, other, strength=0.0).of(one), peer, atol=1e-8)
    np.testing.assert_allclose(ridge(one, other, strength=1e9).of(one), np.tile(other.mean(0), (200, 1)), atol=1e-6)


def test_the_strength_is_chosen_on_other_points(random: np.random.Generator) -> None:
    """Forty points of 30 dimensions: without a ridge the map fits their noise."""
    weights = random.standard_normal((30, 5))
    x = random.standard_normal((120, 30))
    y = x @ weights + 8 * random.standard_normal((120, 5))
    strength, found = best_ridge((x[:40], y[:40]), (x[40:80], y[40:80]), (1e-9, 0.1, 1.0, 10.0))
    assert strength > 1e-3
    assert error(found.of(x[80:]), y[80:]) < error(ridge(x[:40], y[:40], strength=1e-9).of(x[80:]), y[80:])


def test_r2_by_dimension_in_closed_form() -> None:
    target = cloud(d=3)
    target[:, 2] = 0.1  # the mean of many is not .1 exactly
    found = target.copy()
    found[:, 1] = target[:, 1].mean()
    assert r2_by_dimension(found, target)[:2] == pytest.approx([1.0, 0.0])
    assert np.isnan(r2_by_dimension(found, target)[2])


def test_retrieval_ignores_the_lengths_of_points() -> None:
    """Points in the right direction with lengths from .01 to 100: the norm of the matrix is no help."""
    points = np.random.default_rng(0).standard_normal((100, 10))
    lengths = np.logspace(-2, 2, 100)[:, None]
    assert retrieval(points, points * lengths) == (1.0, 1.0)
    assert retrieval(points, points * lengths, neighbours=None) == (1.0, 1.0)
    as_published = points @ (points * lengths).T / np.linalg.norm(points * lengths)
    assert (as_published.argmax(1) == np.arange(100)).mean() < 0.5


def test_csls_by_hand() -> None:
    one, other = cloud(12, 4), cloud(12, 4, seed=1)
    cosine = np.array([[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in other] for a in one])
    rx = np.array([np.sort(row)[-3:].mean() for row in cosine])
    ry = np.array([np.sort(row)[-3:].mean() for row in cosine.T])
    scores = 2 * cosine - rx[:, None] - ry[None]
    expected = [(scores.argmax(1) == range(12)).mean(), (scores.argmax(0) == range(12)).mean()]
    assert retrieval(one, other, neighbours=3) == pytest.approx(expected)


def test_unlinked_points_are_at_chance() -> None:
    found = retrieval(cloud(400), cloud(400, seed=1))
    assert max(found) < 0.03
