"""RSA and neighbours of two layers: leaving out groups, and exchanged items, each against the plain computation."""

import numpy as np
import pytest

from isoscope.geometry.moments import Floats
from isoscope.geometry.neighbour_similarity import RSA, Neighbours
from isoscope.geometry.pair_grid import PairSide, pair_similarities
from isoscope.statistics.delete_a_group import delete_a_group

N = 60
GROUPS = np.random.default_rng(5).permutation(np.arange(N) % 6)


def spaces() -> tuple[Floats, Floats]:
    random = np.random.default_rng(0)
    one = random.standard_normal((N, 6)) + 0.5
    return one, np.tanh(one @ random.standard_normal((6, 4))) + 0.3 * random.standard_normal((N, 4))


@pytest.mark.parametrize("ranks", [True, False])
def test_a_left_out_group_takes_its_pairs_along(ranks: bool) -> None:
    one, other = spaces()
    rsa, near = RSA(ranks=ranks), Neighbours(k=5)
    sides = PairSide(one, rsa, near), PairSide(other, rsa, near)
    found = pair_similarities(*sides, rsa, near, groups=GROUPS, permutations=[])
    assert found["rsa"].value == pytest.approx(rsa.score(one, other))
    assert found["neighbours"].value == pytest.approx(near.score(one, other))
    first, second = np.triu_indices(N, 1)
    for group in range(6):
        kept = (GROUPS[first] != group) & (GROUPS[second] != group)
        expected = np.corrcoef(sides[0].distances[kept], sides[1].distances[kept])[0, 1]
        assert found["rsa"].without[group] == pytest.approx(expected)
        overlaps = near.overlaps(sides[0].near, sides[1].near)
        assert found["neighbours"].without[group] == pytest.approx(overlaps[group != GROUPS].mean())


def test_exchanged_items_are_those_of_a_reordered_space() -> None:
    one, other = spaces()
    rsa, near = RSA(), Neighbours(k=5)
    places = np.random.default_rng(1).permutation(N)
    sides = PairSide(one, rsa, near), PairSide(other, rsa, near)
    found = pair_similarities(*sides, rsa, near, groups=GROUPS, permutations=[places])
    assert found["rsa"].null[0] == pytest.approx(rsa.score(one, other[places]), abs=1e-6)
    assert found["neighbours"].null[0] == pytest.approx(near.score(one, other[places]))


def test_the_interval_of_rsa_covers_the_true_value() -> None:
    """92 to 98 %, of related spaces. (That of neighbours does not: docs/spaces.md.)"""
    random, rsa, near = np.random.default_rng(0), RSA(), Neighbours(k=5)
    shares, groups = np.array([1.4, 1.2, 1.0, 0.8, 0.6, 0.4]), np.arange(200) % 20
    found = []
    for _ in range(300):
        one = random.standard_normal((200, 6))
        other = one * shares + random.standard_normal((200, 6))
        sides = PairSide(one, rsa, near), PairSide(other, rsa, near)
        found.append(pair_similarities(*sides, rsa, near, groups=groups, permutations=[])["rsa"])
    truth = float(np.mean([one.value for one in found]))
    bounds = [delete_a_group(one.value, one.without, confidence=0.95) for one in found]
    assert 0.92 <= np.mean([own is not None and own.low <= truth <= own.high for own in bounds]) <= 0.98
