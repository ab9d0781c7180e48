"""Bars against minimum spanning trees, ripser, known shapes and closed forms; distances against all matchings."""

from itertools import permutations

import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import pdist, squareform

from isoscope.geometry.persistence import bottleneck, diagrams, h0_bars, persistent_entropy, wasserstein


@pytest.mark.parametrize("shape", [(2, 3), (40, 2), (64, 768), (30, 1)], ids=str)
def test_h0_bars_are_the_edges_of_a_minimum_spanning_tree_and_those_of_ripser(shape: tuple[int, int]) -> None:
    points = np.random.default_rng(0).standard_normal(shape)
    bars = h0_bars(points)
    tree = minimum_spanning_tree(squareform(pdist(points))).data
    assert bars == pytest.approx(np.sort(tree), rel=1e-12)
    if len(points) > 2:
        zero = diagrams(points)[0]
        assert (zero[:, 0] == 0).all()
        assert np.sort(zero[:, 1]) == pytest.approx(bars, rel=1e-6)  # single precision


def test_bars_of_a_line_and_their_entropy() -> None:
    bars = h0_bars([[0.0], [15.0], [1.0], [7.0], [3.0]])
    assert bars.tolist() == [1, 2, 4, 8]
    assert persistent_entropy(bars) == pytest.approx(1.1369165918)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_the_bars_of_a_simplex_are_equal_and_their_entropy_is_the_logarithm_of_their_number(n: int) -> None:
    bars = h0_bars(np.eye(n))
    assert bars == pytest.approx(np.full(n - 1, np.sqrt(2)))
    assert persistent_entropy(bars) == pytest.approx(np.log(n - 1), abs=1e-12)


@pytest.mark.parametrize(
    "bars, entropy",
    [
        ([10, 9, 1, 1, 1], 1.145548),
        ([10, 9, 8] + [1] * 10, 2.004529),
        ([10] * 5 + [1] * 5, 1.914074),
        ([100] + [1] * 9, 0.466421),
        ([7], 0.0),
    ],
    ids=str,
)
def test_entropy_of_known_bars(bars: list[int], entropy: float) -> None:
    assert persistent_entropy(bars) == pytest.approx(entropy, abs=5e-7)
    assert persistent_entropy([0, *bars, 0.0]) == persistent_entropy(bars)
    assert persistent_entropy(1e-200 * np.array(bars)) == pytest.approx(entropy, abs=5e-7)


def test_points_that_coincide_give_bars_of_no_length() -> None:
    """A minimum spanning tree of a sparse matrix would take the 0 for no edge; ripser leaves such bars out."""
    points = [[0.0], [0.0], [1.0]]
    assert h0_bars(points).tolist() == [0, 1]
    assert diagrams(points)[0].tolist() == [[0, 1]]
    assert persistent_entropy(h0_bars(points)) == 0.0
    assert h0_bars(np.full((4, 2), 0.1)).tolist() == [0, 0, 0]
    assert np.isnan(persistent_entropy(h0_bars(np.full((4, 2), 0.1))))


def test_one_point_has_no_bars_and_no_bars_no_entropy() -> None:
    assert h0_bars([[1.0, 2.0]]).shape == (0,)
    assert np.isnan(persistent_entropy([]))


def circle(n: int = 40, noise: float = 0.02) -> np.ndarray:
    angles = np.arange(n) * 2 * np.pi / n
    points = np.stack([np.cos(angles), np.sin(angles)], 1)
    return points + noise * np.random.default_rng(0).standard_normal(points.shape)


def test_a_circle_has_one_long_loop_and_a_disc_has_none(random: np.random.Generator) -> None:
    """A regular n-gon's loop is born at its side and dies at its inscribed triangle's, √3."""
    loops = diagrams(circle(noise=0.0))[1]
    assert loops == pytest.approx(np.array([[2 * np.sin(np.pi / 40), np.sqrt(3)]]), abs=0.07)
    loops = diagrams(circle())[1]
    lengths = np.sort(np.diff(loops, axis=1).ravel())
    assert lengths[-1] > 1.4
    assert (lengths[:-1] < 0.05).all()
    disc = circle(200, 0.0) * np.sqrt(random.random((200, 1)))
    assert np.diff(diagrams(disc)[1], axis=1).max() < 0.4


def test_the_surface_of_an_octahedron_is_one_void() -> None:
    points = np.concatenate([np.eye(3), -np.eye(3)])
    found = diagrams(points, degree=2)
    assert len(found) == 3
    assert found[0][:, 1] == pytest.approx(np.full(5, np.sqrt(2)))
    assert len(found[1]) == 0
    assert found[2] == pytest.approx(np.array([[np.sqrt(2), 2.0]]))


def test_a_circle_in_a_narrow_cone_keeps_its_loop() -> None:
    """Distances by expanding squares would lose it: at offset 1e5 they are rounded to some 1e-3."""
    wide = diagrams(circle())[1]
    narrow = diagrams(1e-3 * circle() + 1e5)[1]
    assert narrow[np.diff(narrow, axis=1).ravel() > 1e-3] == pytest.approx(
        1e-3 * wide[np.diff(wide, axis=1).ravel() > 1], rel=1e-5
    )


@pytest.mark.parametrize("one", [[[0.0, 2.0]], [[0.0, 2.0], [1.0, 1.5], [3.0, 7.0]]], ids=str)
def test_a_diagram_is_no_way_from_itself_and_half_its_bars_from_nothing(one: list[list[float]]) -> None:
    lengths = np.diff(one, axis=1).ravel()
    for empty in ([], np.zeros((0, 2))):
        assert bottleneck(one, empty) == bottleneck(empty, one) == lengths.max() / 2
        assert wasserstein(one, empty) == wasserstein(empty, one) == lengths.sum() / 2
    for distance in (bottleneck, wasserstein):
        assert distance(one, one[::-1]) == 0.0
        assert distance([], []) == 0.0
        assert distance(one, [*one, [4.0, 4.0]]) == 0.0  # on the diagonal there is nothing


def test_known_moves() -> None:
    assert bottleneck([[0, 4], [0, 10]], [[0, 5], [1, 12]]) == 2
    assert wasserstein([[0, 4], [0, 10]], [[0, 5], [1, 12]]) == 1 + 2
    assert bottleneck([[0, 1], [10, 20]], [[10, 21]]) == 1  # the short bar dies on the diagonal, for ½
    assert wasserstein([[0, 1], [10, 20]], [[10, 21]]) == 0.5 + 1
    assert wasserstein([[0, 2]], [[100, 102]]) == 1 + 1  # nearer by way of the diagonal


def bars(n: int, seed: int) -> np.ndarray:
    births = np.random.default_rng(seed).random(n)
    return np.stack([births, births + np.random.default_rng(seed + 100).random(n)], 1)


@pytest.mark.parametrize("m, n", [(3, 3), (2, 4), (4, 1)])
def test_distances_are_those_of_the_best_of_all_matchings(m: int, n: int) -> None:
    one, other = bars(m, m), bars(n, 10 + n)
    half = [np.diff(diagram).ravel() / 2 for diagram in (one, other)]
    longest, total = [], []
    for order in permutations(range(m + n)):  # bar i goes to bar order[i], or beyond the n to the diagonal
        moves = [np.abs(one[i] - other[j]).max() if j < n else half[0][i] for i, j in enumerate(order[:m])]
        moves += [half[1][j] for j in range(n) if j not in order[:m]]
        longest.append(max(moves))
        total.append(sum(moves))
    assert bottleneck(one, other) == pytest.approx(min(longest))
    assert wasserstein(one, other) == pytest.approx(min(total))


def test_distances_are_metrics_and_a_moved_cloud_moves_its_diagram_no_further() -> None:
    """Stability (Cohen-Steiner et al. 2007): points moved by ε at most change no distance by more than 2ε."""
    a, b, c = bars(20, 0), bars(25, 1), bars(15, 2)
    for distance in (bottleneck, wasserstein):
        assert distance(a, b) == pytest.approx(distance(b, a), rel=1e-12)
        assert distance(a, b) > 0.1
        assert distance(a, c) <= distance(a, b) + distance(b, c)
    assert bottleneck(a, b) <= wasserstein(a, b)
    shift = np.random.default_rng(1).uniform(-1, 1, (40, 2))
    epsilon = 0.05
    moved = circle() + epsilon * shift / np.linalg.norm(shift, axis=1).max()
    for before, after in zip(diagrams(circle()), diagrams(moved), strict=True):
        assert 0 < bottleneck(before, after) <= 2 * epsilon
