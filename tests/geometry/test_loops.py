"""Compiled loops against scipy and against plain Python."""

import math

import numpy as np
import pytest
from scipy.cluster.hierarchy import single
from scipy.spatial.distance import pdist, squareform

from isoscope.geometry import loops


@pytest.mark.parametrize("n", [2, 31, 32, 33, 64, 100])
@pytest.mark.parametrize("dtype, rtol", [(np.float32, 1e-6), (np.float64, 1e-14)])
def test_distances_are_those_of_scipy_in_its_order(n: int, dtype: type, rtol: float) -> None:
    points = np.random.default_rng(n).standard_normal((n, 37)).astype(dtype)
    np.testing.assert_allclose(loops.distances(points), pdist(points.astype(np.float64)), rtol=rtol)


def test_distances_keep_their_digits_in_a_narrow_cone() -> None:
    points = (10 + 1e-3 * np.random.default_rng(0).standard_normal((40, 768))).astype(np.float32)
    wanted = pdist(points.astype(np.float64))
    np.testing.assert_allclose(loops.distances(points), wanted, rtol=1e-5)
    squares = (points**2).sum(1)
    lossy = np.sqrt(np.maximum(squares[:, None] + squares - 2 * points @ points.T, 0))
    assert np.abs(lossy[np.triu_indices(40, 1)] / wanted - 1).max() > 1e-2, "where products lose theirs"


def test_a_joined_point_hangs_on_one_that_was_there_and_lengths_are_single_linkage() -> None:
    random = np.random.default_rng(0)
    for n in (2, 3, 5, 40):
        for points in (random.standard_normal((n, 3)), random.integers(0, 3, (n, 2)).astype(float)):
            distances = pdist(points)
            edges, lengths = loops.joined(distances, n)
            there = {0}
            for one, other in edges.tolist():
                assert one in there
                assert other not in there
                there.add(other)
            assert there == set(range(n))
            np.testing.assert_array_equal(lengths, squareform(distances)[edges[:, 0], edges[:, 1]])
            np.testing.assert_array_equal(np.sort(lengths), single(distances)[:, 2])


def test_slopes_are_spread_over_both_ends_and_an_edge_without_one_is_not_looked_at() -> None:
    points = np.array([[1.0, 2.0], [4.0, 6.0], [math.nan, 0.0]])
    found = np.ones((3, 2))
    loops.spread(points, np.array([[0, 1], [1, 2]]), np.array([0.5, 0.0]), found)
    np.testing.assert_array_equal(found, [[1 - 1.5, 1 - 2.0], [1 + 1.5, 1 + 2.0], [1.0, 1.0]])
