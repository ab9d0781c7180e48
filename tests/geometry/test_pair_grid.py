"""RSA and neighbours of two layers: leaving out groups, and exchanged items, each against the plain computation."""

import numpy as np
import numpy.typing as npt
import pytest

from isoscope.geometry.moments import Floats, Ints
from isoscope.geometry.neighbour_similarity import RSA, Neighbours
from isoscope.geometry.pair_grid import PairSide, pair_similarities
from isoscope.geometry.sentence_permutations import exchanged
from isoscope.geometry.similarity_grid import Values
from isoscope.platform.statistics.delete_a_group import delete_a_group

N = 60
GROUPS = np.random.default_rng(5).permutation(np.arange(N) % 6)


def spaces() -> tuple[Floats, Floats]:
    random = np.random.default_rng(0)
    one = random.standard_normal((N, 6)) + 0.5
    return one, np.tanh(one @ random.standard_normal((6, 4))) + 0.3 * random.standard_normal((N, 4))


def sides(one: Floats, other: Floats, rsa: RSA, near: Neighbours, groups: Ints = GROUPS) -> tuple[PairSide, PairSide]:
    return PairSide(one, rsa, near, groups=groups), PairSide(other, rsa, near, groups=groups, seed=1)


def common(asked: tuple[Floats, Floats], among: tuple[Floats, Floats], k: int) -> float:
    """The mean share of an asked item's k candidates of largest cosine that two spaces have in common."""
    near = []
    for items, candidates in zip(asked, among, strict=True):
        unit = candidates / np.linalg.norm(candidates, axis=1, keepdims=True)
        near.append(np.argpartition(-items @ unit.T, k - 1, axis=1)[:, :k])
    return float((near[0][:, :, None] == near[1][:, None, :]).any(2).mean())


def overlap(one: Floats, other: Floats, groups: Ints, k: int) -> float:
    """That of the items in odd groups, among those in even groups."""
    odd = groups % 2 == 1
    return common((one[odd], other[odd]), (one[~odd], other[~odd]), k)


@pytest.mark.parametrize("ranks", [True, False])
def test_a_left_out_group_takes_its_pairs_along(ranks: bool) -> None:
    one, other = spaces()
    rsa, near = RSA(ranks=ranks), Neighbours(k=5)
    both = sides(one, other, rsa, near)
    found = pair_similarities(*both, rsa, near, groups=GROUPS, permutations=[])
    assert found["rsa"].value == pytest.approx(rsa.score(one, other))
    first, second = np.triu_indices(N, 1)
    for group in range(6):
        kept = (GROUPS[first] != group) & (GROUPS[second] != group)
        expected = np.corrcoef(both[0].distances[kept], both[1].distances[kept])[0, 1]
        assert found["rsa"].without[group] == pytest.approx(expected)


def test_neighbours_of_odd_groups_are_sought_among_even_groups() -> None:
    one, other = spaces()
    rsa, near = RSA(), Neighbours(k=5)
    found = pair_similarities(*sides(one, other, rsa, near), rsa, near, groups=GROUPS, permutations=[])["neighbours"]
    assert found.value == pytest.approx(overlap(one, other, GROUPS, 5))
    expected = [overlap(one[kept], other[kept], GROUPS[kept], 5) for kept in (odd != GROUPS for odd in (1, 3, 5))]
    assert found.without == pytest.approx(expected), "of the odd groups alone: the even ones are candidates"


def test_too_few_candidates_leave_the_overlap_empty() -> None:
    one, other = spaces()
    rsa, near = RSA(), Neighbours(k=N // 2 + 1)
    found = pair_similarities(*sides(one, other, rsa, near), rsa, near, groups=GROUPS, permutations=[])
    assert np.isnan(found["neighbours"].value)
    assert found["neighbours"].why == "some items have fewer than 31 candidates; give more items or fewer neighbours"
    assert found["rsa"].value == pytest.approx(rsa.score(one, other))


def test_a_group_without_items_is_left_out() -> None:
    one, other = spaces()
    rsa, near = RSA(), Neighbours(k=5)
    gap = GROUPS + 2 * (GROUPS > 2)  # 0, 1, 2, 5, 6, 7: of the same halves
    found, expected = (
        pair_similarities(*sides(one, other, rsa, near, own), rsa, near, groups=own, permutations=[])
        for own in (gap, GROUPS)
    )
    for name, values in expected.items():
        assert found[name].without == pytest.approx(values.without), name


def test_exchanged_items_are_those_of_a_reordered_space() -> None:
    one, other = spaces()
    rsa, near = RSA(), Neighbours(k=5)
    places = exchanged(GROUPS % 2, seed=1, draw=0)
    found = pair_similarities(*sides(one, other, rsa, near), rsa, near, groups=GROUPS, permutations=[places])
    assert found["rsa"].null[0] == pytest.approx(rsa.score(one, other[places]), abs=1e-6)
    assert found["neighbours"].null[0] == pytest.approx(overlap(one, other[places], GROUPS, 5))


def related(n: int, shares: npt.ArrayLike, random: np.random.Generator) -> tuple[Floats, Floats]:
    one = random.standard_normal((n, np.size(shares)))
    return one, one * np.asarray(shares) + random.standard_normal(one.shape)


def covered(found: list[Values], truth: list[float]) -> float:
    bounds = [delete_a_group(one.value, one.without, confidence=0.95) for one in found]
    return float(
        np.mean([own is not None and own.low <= at <= own.high for own, at in zip(bounds, truth, strict=True)])
    )


STRONG, WIDE, NONE = (1.4, 1.2, 1.0, 0.8, 0.6, 0.4), tuple(np.linspace(0, 1, 24)), (0.0,) * 6


def test_the_interval_of_rsa_covers_the_true_value() -> None:
    """92 to 98 %, of related spaces."""
    random, rsa, near = np.random.default_rng(0), RSA(), Neighbours(k=5)
    groups = np.arange(200) % 20
    found = []
    for _ in range(300):
        both = sides(*related(200, STRONG, random), rsa, near, groups)
        found.append(pair_similarities(*both, rsa, near, groups=groups, permutations=[])["rsa"])
    truth = float(np.mean([one.value for one in found]))
    assert 0.92 <= covered(found, [truth] * 300) <= 0.98


@pytest.mark.parametrize("shares", [STRONG, WIDE, NONE], ids=["strong", "wide", "none"])
def test_the_interval_of_neighbours_covers_the_overlap_among_its_candidates(shares: tuple[float, ...]) -> None:
    """92 to 98 %: the true value is that of 2,000 other items, asked among the same candidates."""
    random, rsa, near = np.random.default_rng(0), RSA(), Neighbours(k=10)
    groups = np.arange(200) % 20
    found, truth = [], []
    for _ in range(300):
        one, other = related(200, shares, random)
        both = sides(one, other, rsa, near, groups)
        found.append(pair_similarities(*both, rsa, near, groups=groups, permutations=[])["neighbours"])
        even = groups % 2 == 0
        truth.append(common(related(2000, shares, random), (one[even], other[even]), 10))
    assert 0.92 <= covered(found, truth) <= 0.98
