"""Spanning trees, from compiled distances and from a GPU's, against single linkage; compiled loops against scipy."""

import math

import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import single
from scipy.spatial.distance import pdist, squareform

from isoscope.geometry import spanning_trees
from isoscope.geometry.spanning_trees import Trees, minimum_spanning_trees

both_ways = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "of a GPU"])


def lengths(points: torch.Tensor, trees: Trees, cloud: int) -> np.ndarray:
    edges = trees.edges[cloud][trees.real[cloud]]
    pairs = points[cloud][edges]
    return (pairs[:, 0] - pairs[:, 1]).norm(dim=1).numpy()


def components(edges: np.ndarray, n: int) -> int:
    of = list(range(n))
    for u, v in edges:
        of = [of[v] if one == of[u] else one for one in of]
    return len(set(of))


@both_ways
@pytest.mark.parametrize("kind", ["gaussian", "grid", "clustered"])
def test_both_ways_are_single_linkage_in_count_and_value_on_a_thousand_clouds(kind: str, compiled: bool) -> None:
    random = np.random.default_rng({"gaussian": 0, "grid": 1, "clustered": 2}[kind])
    for _ in range(120):
        n, d = int(random.integers(1, 40)), int(random.integers(1, 6))
        cloud = random.standard_normal((3, n, d))
        if kind == "grid":  # ties and duplicates
            cloud = cloud.round()
        if kind == "clustered":
            cloud = 1e-3 * cloud + 10.0 * random.integers(0, 2, (3, n, 1))
        points, mask = torch.from_numpy(cloud), torch.from_numpy(random.random((3, n)) < 0.85)
        trees = minimum_spanning_trees(points, mask, compiled=compiled)
        for at in range(3):
            there = mask[at].numpy()
            alone = cloud[at][there]
            wanted = single(pdist(alone))[:, 2] if len(alone) > 1 else np.zeros(0)
            found = lengths(points, trees, at)
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(trees.lengths[at][trees.real[at]], wanted, rtol=1e-9, atol=1e-12)
            assert not trees.lengths[at][~trees.real[at]].any()
            assert trees.real[at].sum() == max(there.sum() - 1, 0)
            assert trees.points[at] == there.sum()
            edges = trees.edges[at][trees.real[at]].numpy()
            assert there[edges].all()
            assert components(edges, n) == n - len(edges), "no circle"
            assert not trees.edges[at][~trees.real[at]].any()


@both_ways
@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_the_smallest_clouds_have_trees(n: int, compiled: bool) -> None:
    points, mask = torch.arange(float(2 * n)).reshape(1, n, 2), torch.ones((1, n), dtype=torch.bool)
    trees = minimum_spanning_trees(points, mask, compiled=compiled)
    assert trees.edges.shape == (1, max(n - 1, 0), 2)
    assert sorted(trees.edges[0].tolist()) == [[at, at + 1] for at in range(n - 1)]


@both_ways
def test_a_narrow_cone_keeps_its_tree_where_products_lose_it(random: np.random.Generator, compiled: bool) -> None:
    points = torch.from_numpy((10 + 1e-3 * random.standard_normal((1, 64, 768))).astype(np.float32))
    wanted = single(pdist(points[0].double().numpy()))[:, 2]
    trees = minimum_spanning_trees(points, None, compiled=compiled)
    for found in (lengths(points.double(), trees, 0), trees.lengths[0]):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    lossy = torch.cdist(points, points, compute_mode="use_mm_for_euclid_dist")[0].double().numpy()
    edges, *_ = spanning_trees.joined(lossy)
    lost = np.sort((points[0].double()[edges[:, 0]] - points[0].double()[edges[:, 1]]).norm(dim=1).numpy())
    assert np.abs(lost / wanted - 1).max() > 1e-3, "this cloud is a narrow one"


LARGE = {
    "gaussian": lambda random, n, d: random.standard_normal((n, d)),
    "cone": lambda random, n, d: 10 + 1e-3 * random.standard_normal((n, d)),
    "grid": lambda random, n, d: random.standard_normal((n, d)).round(),
    "duplicates": lambda random, n, d: random.standard_normal((n // 2, d))[random.integers(0, n // 2, n)],
    "spread": lambda random, n, d: random.standard_normal((n, d)) * np.exp(random.uniform(-6, 6, (n, 1))),
    "clustered": lambda random, n, d: 1e-3 * random.standard_normal((n, d)) + 10.0 * random.integers(0, 4, (n, 1)),
    "tiny": lambda random, n, d: 1e-16 * random.standard_normal((n, d)),
    "huge": lambda random, n, d: 1e17 * random.standard_normal((n, d)),
    "one place": lambda random, n, d: np.ones((n, d)),
}


@pytest.mark.parametrize("n, d", [(200, 3), (257, 40), (400, 300)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", LARGE)
def test_a_cloud_of_several_blocks_is_single_linkage(
    kind: str, dtype: type, random: np.random.Generator, n: int, d: int
) -> None:
    cloud = LARGE[kind](random, n, d).astype(dtype)
    trees = minimum_spanning_trees(torch.from_numpy(cloud)[None], None)
    wanted = single(pdist(cloud.astype(np.float64)))[:, 2]
    tolerance = {np.float32: 1e-5, np.float64: 1e-12}[dtype]
    np.testing.assert_allclose(trees.lengths[0], wanted, rtol=tolerance, atol=tolerance * wanted[-1] * 1e-9)
    assert components(trees.edges[0].numpy(), n) == 1


@both_ways
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("at", [0, 3, 249])
def test_a_large_cloud_with_a_value_that_is_no_number_has_no_lengths(at: int, value: float, compiled: bool) -> None:
    points = torch.randn(1, 250, 5)
    points[0, at, 2] = value
    assert minimum_spanning_trees(points, None, compiled=compiled).lengths.isnan().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_read_in_single(dtype: torch.dtype) -> None:
    points = torch.randn(1, 40, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    trees = minimum_spanning_trees(points, None)
    np.testing.assert_allclose(trees.lengths[0], single(pdist(points[0].double()))[:, 2], rtol=1e-6)


def test_views_are_read_as_what_they_show() -> None:
    numbers = torch.randn(2, 9, 4, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
    for view in (
        numbers.conj().imag,
        numbers.real.transpose(1, 2),
        numbers.real[:, ::2],
        numbers.real[:1].expand(3, -1, -1),
    ):
        found, wanted = minimum_spanning_trees(view, None), minimum_spanning_trees(view.clone(), None)
        assert torch.equal(found.lengths, wanted.lengths)
        assert torch.equal(found.edges, wanted.edges)


@pytest.mark.parametrize("n", [2, 31, 32, 33, 64, 100])
@pytest.mark.parametrize("dtype, rtol", [(np.float32, 1e-6), (np.float64, 1e-14)])
def test_distances_are_those_of_scipy(n: int, dtype: type, rtol: float) -> None:
    points = np.random.default_rng(n).standard_normal((n, 37)).astype(dtype)
    found = spanning_trees.distances(points)
    assert not found[:, n:].any()
    np.testing.assert_allclose(found[:, :n], squareform(pdist(points.astype(np.float64))), rtol=rtol)


@pytest.mark.parametrize("n", [2, 3, 5, 40])
def test_a_joined_point_hangs_on_one_that_was_there_and_lengths_are_single_linkage(
    random: np.random.Generator, n: int
) -> None:
    for points in (random.standard_normal((n, 3)), random.integers(0, 3, (n, 2)).astype(float)):
        distances = squareform(pdist(points))
        edges, lengths, finite = spanning_trees.joined(distances)
        assert finite
        there = {0}
        for one, other in edges.tolist():
            assert one in there
            assert other not in there
            there.add(other)
        assert there == set(range(n))
        np.testing.assert_array_equal(lengths, distances[edges[:, 0], edges[:, 1]])
        np.testing.assert_array_equal(np.sort(lengths), single(pdist(points))[:, 2])


def test_slopes_are_spread_over_both_ends_and_an_edge_without_one_is_not_looked_at() -> None:
    points = np.array([[1.0, 2.0], [4.0, 6.0], [math.nan, 0.0]])
    found = np.ones((3, 2))
    spanning_trees.spread(points, np.array([[0, 1], [1, 2]]), np.array([0.5, 0.0]), found)
    np.testing.assert_array_equal(found, [[1 - 1.5, 1 - 2.0], [1 + 1.5, 1 + 2.0], [1.0, 1.0]])
