"""Quasi-random proposals cover every name evenly, and depend only on seed and number."""

import math
from collections import Counter

import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from isoscope.platform.search import space
from isoscope.platform.search.samplers import sampler, value_at
from search_work import a_search

COUNT = 64


def drawn(seed: int, count: int = COUNT) -> list[dict[str, object]]:
    """Return the draws of trials, each in a study without history."""
    search, found = a_search(sampler={"kind": "qmc", "seed": seed}), []
    for number in range(count):
        trial = optuna.create_study(sampler=sampler(search, number)).ask()
        found.append(space.suggest(search, trial))
    return found


def test_a_proposal_needs_no_history() -> None:
    assert drawn(3) == drawn(3, 2 * COUNT)[:COUNT]
    assert drawn(3) != drawn(4)


def test_every_name_is_covered_evenly() -> None:
    """Of 64 points each sixteenth of a coordinate has four; random points would have none or many."""
    found = drawn(3)
    assert Counter(one["fusion"] for one in found) == {"additive": 32, "conv2d": 32}
    low, high = math.log(0.1), math.log(100)
    shares = [(math.log(one["penalty.weight"]) - low) / (high - low) for one in found]
    assert set(Counter(int(16 * share) for share in shares).values()) == {4}
    widths = Counter(one["model.fusion.width"] for one in found if "model.fusion.width" in one)
    assert set(widths) == set(range(1, 10))
    assert max(widths.values()) <= 5


@pytest.mark.parametrize(
    "distribution, expected",
    [
        (CategoricalDistribution(["a", "b", "c"]), ["a", "a", "b", "c", "c"]),
        (IntDistribution(1, 3), [1, 1, 2, 3, 3]),
        (IntDistribution(1, 9, step=4), [1, 1, 5, 9, 9]),
        (IntDistribution(1, 100, log=True), [1, 2, 7, 27, 100]),
        (FloatDistribution(0.0, 4.0), [0.0, 1.0, 2.0, 3.0, 4.0]),
        (FloatDistribution(0.0, 1.0, step=0.5), [0.0, 0.0, 0.5, 1.0, 1.0]),
        (FloatDistribution(0.01, 100.0, log=True), [0.01, 0.1, 1.0, 10.0, 100.0]),
    ],
)
def test_shares_are_values(distribution: BaseDistribution, expected: list[object]) -> None:
    found = [value_at(distribution, share) for share in (0.0, 0.25, 0.5, 0.75, 1 - 2**-53)]
    assert found == (expected if isinstance(expected[0], str) else pytest.approx(expected))
    assert all(type(one) is type(expected[0]) for one in found)
