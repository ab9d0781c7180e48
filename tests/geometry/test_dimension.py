"""Intrinsic dimension against uniform cubes of known dimension, another library, and distances by hand."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import ortho_group

from isoscope.geometry import dimension
from isoscope.geometry.dimension import mle, mle_of, places, two_nn, two_nn_of


def cube(d: int, n: int = 2000, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((n, d))


@pytest.mark.parametrize("d, two, likely", [(2, 2.01, 1.96), (5, 4.95, 4.53), (10, 8.62, 8.26)])
def test_dimension_of_uniform_cubes(d: int, two: float, likely: float) -> None:
    """Known to fall short from the border inwards: the more, the more dimensions."""
    near = [places(cube(d, 3000, seed), 20).near for seed in range(3)]
    assert np.mean([two_nn_of(one) for one in near]) == pytest.approx(two, rel=0.03)
    assert np.mean([mle_of(one) for one in near]) == pytest.approx(likely, rel=0.015)


@pytest.mark.parametrize("d", [2, 5, 10])
def test_dimension_agrees_with_scikit_dimension(d: int) -> None:
    peer = pytest.importorskip("skdim", reason="scikit-dimension is not installed").id
    points = cube(d, 500)
    assert two_nn(points) == pytest.approx(peer.TwoNN().fit(points).dimension_, rel=1e-9)
    assert two_nn(points, discard=0.3) == pytest.approx(
        peer.TwoNN(discard_fraction=0.3).fit(points).dimension_, rel=1e-9
    )
    for k in (5, 20):
        assert mle(points, k=k) == pytest.approx(peer.MLE().fit(points, n_neighbors=k).dimension_, rel=1e-9)


@pytest.mark.parametrize("measure", [two_nn, mle])
def test_dimension_is_that_of_the_sheet_and_not_of_the_space(measure: Callable[[np.ndarray], float]) -> None:
    """Three coordinates, turned into forty; noise of the size of the distances fills the space again."""
    flat = cube(3, 600) @ ortho_group.rvs(40, random_state=np.random.default_rng(0))[:3]
    noisy = flat + 0.1 * np.random.default_rng(1).standard_normal(flat.shape)
    assert two_nn(flat) == pytest.approx(two_nn(cube(3, 600)), rel=1e-6)
    assert measure(flat) == pytest.approx(3.0, abs=0.4)
    assert measure(noisy) > 10


@pytest.mark.parametrize("rows", [1, 7, 1024])
def test_near_distances_are_the_smallest_whatever_the_rows_at_once(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dimension, "_ROWS", rows)
    points = cube(3, 20)
    points = points[np.lexsort(points.T[::-1])]
    expected = np.sort(cdist(points, points), axis=1)[:, 1:5]
    np.testing.assert_allclose(places(points, 4).near, expected, rtol=1e-12)


@pytest.mark.parametrize("measure", [two_nn, mle])
def test_points_that_coincide_are_one_place(measure: Callable[[np.ndarray], float]) -> None:
    points = cube(4, 100)
    twice = np.concatenate([points, points[:60], -0.0 * points[:1], 0.0 * points[:1]])
    once = np.concatenate([points, 0.0 * points[:1]])
    assert measure(twice) == pytest.approx(measure(once), rel=1e-12)


def test_two_nn_by_hand() -> None:
    """Ratios 2, 3, 4, 5: −ln(1 − i/4) over their logarithms, the largest left out, where F is 1."""
    near = np.array([[1.0, 2.0], [1.0, 4.0], [2.0, 10.0], [1.0, 3.0]])
    x, y = np.log([2, 3, 4]), -np.log([3 / 4, 2 / 4, 1 / 4])
    assert two_nn_of(near, discard=0.25) == pytest.approx((x @ y) / (x @ x))
    assert two_nn_of(near, discard=0.0) == pytest.approx((x @ y) / (x @ x))
    assert two_nn_of(near, discard=0.5) == pytest.approx((x[:2] @ y[:2]) / (x[:2] @ x[:2]))


def test_mle_by_hand() -> None:
    """Places 0, 1, 3 on a line: distances (1, 3), (1, 2), (2, 3)."""
    points = [[0.0], [1.0], [3.0]]
    expected = 3 / (np.log(3) + np.log(2) + np.log(1.5))
    assert mle(points, k=2) == pytest.approx(expected)
    near = np.array([[1.0, 2.0, 4.0]])
    assert mle_of(near) == pytest.approx(2 / (np.log(4) + np.log(2)))


def test_neighbours_at_one_distance_have_no_dimension() -> None:
    """On a grid all ratios are 1, so the dimension is NaN. After a small perturbation it is a number."""
    grid = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0)), -1).reshape(-1, 2)
    assert np.isnan(two_nn(grid))
    assert np.isnan(mle(grid, k=2))
    assert two_nn(grid + 0.3 * cube(2, 36)) > 1
    assert mle(np.eye(30) + 1e-6 * cube(30, 30), k=5) > 1e4  # all as far from each other as they can be


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("jitter", [0.0, 1e-9, 1e-6])
@pytest.mark.parametrize("d", [2, 5, 10])
def test_near_copies_of_points_count_once(d: int, jitter: float, share: float) -> None:
    """Taken for points of their own, a tenth of them turns 5 dimensions into 0.2 (TwoNN) and 2.2 (likelihood)."""
    points = cube(d, 800)
    copies = points[: int(share * 800)] + jitter * cube(d, int(share * 800), seed=1)
    near, repeated, close = places(np.concatenate([points, copies]), 10)
    assert repeated == pytest.approx(share / (1 + share), abs=0.003)
    assert close < 0.02
    assert two_nn_of(near) == pytest.approx(two_nn(points), rel=0.12)
    assert mle_of(near) == pytest.approx(mle(points, k=10), rel=0.03)


@pytest.mark.parametrize("times", [3, 4, 10])
@pytest.mark.parametrize("d", [2, 5])
def test_copies_that_are_each_others_neighbours_count_once(d: int, times: int) -> None:
    """Words that occur often, in float32: the distance of second neighbours is then one of copies."""
    points = cube(d, 200)
    copies = np.concatenate([points + 1e-7 * cube(d, 200, seed=one) for one in range(1, times + 1)])
    near, repeated, close = places(copies, 10)
    assert repeated == pytest.approx(1 - 1 / times)
    assert close < 0.02
    assert two_nn_of(near) == pytest.approx(two_nn(points), rel=1e-3)
    assert mle_of(near) == pytest.approx(mle(points, k=10), rel=1e-3)


def test_pairs_too_far_apart_to_be_copies_are_counted() -> None:
    """A pair at a thirtieth of the usual distance may be structure: it stays, and the share of such points says so."""
    points = cube(5, 800)
    paired = np.concatenate([points, points[:80] + 0.005])
    near, repeated, close = places(paired, 10)
    assert two_nn_of(near) < 2
    assert repeated == 0
    assert close == pytest.approx(160 / 880, abs=0.01)
    assert places(points, 10).close == 0


def test_points_of_which_none_repeats_are_all_used() -> None:
    for d in (2, 5, 10):
        assert places(cube(d, 500), 10).repeated < 0.005
    assert places(np.random.default_rng(0).random((1500, 1)), 10).repeated < 0.005  # close by chance, on a curve
