"""Each verdict at the least evidence that it needs, and not below."""

import pytest

from isoscope.statistics.paired import Interval, Paired
from isoscope.statistics.verdicts import judge

STRONG = Paired(5, 0.05, 0.01, Interval(0.03, 0.07), 0.001)
WEAK = Paired(5, 0.01, 0.03, Interval(-0.03, 0.05), 0.5)


def word(paired: Paired, two_way: Interval | None, p_holm: float | None, margin: float = 0.01) -> str:
    return judge(paired, two_way, p_holm=p_holm, detectable=0.02, confidence=0.95, margin=margin).word


def test_holds_needs_seeds_and_items() -> None:
    assert word(STRONG, Interval(0.02, 0.08), 0.002) == "holds"
    assert word(STRONG, Interval(-0.01, 0.11), 0.002) == "under-powered"


def test_holds_needs_p_after_the_correction() -> None:
    assert word(STRONG, Interval(0.02, 0.08), 0.049) == "holds"
    assert word(STRONG, Interval(0.02, 0.08), 0.051) == "under-powered"


def test_does_not_needs_both_intervals_within_the_margin() -> None:
    assert word(WEAK, Interval(-0.03, 0.05), 0.5, margin=0.05) == "does not"
    assert word(WEAK, Interval(-0.03, 0.06), 0.5, margin=0.05) == "under-powered"
    assert word(WEAK, Interval(-0.03, 0.05), 0.5, margin=0.04) == "under-powered"


def test_absence_of_significance_is_no_evidence_of_absence() -> None:
    verdict = judge(WEAK, Interval(-0.04, 0.06), p_holm=0.5, detectable=0.05, confidence=0.95, margin=0.01)
    assert verdict == ("under-powered", "a true difference of 0.01 could well go unseen")


@pytest.mark.parametrize(
    "paired, reason",
    [
        (None, "0 paired seeds: no interval below 3"),
        (Paired(1, 0.5, None, None, None), "1 paired seed: no interval below 3"),
        (Paired(2, 0.5, 0.0, None, None), "2 paired seeds: no interval below 3"),
    ],
)
def test_fewer_than_three_seeds_say_nothing(paired: Paired | None, reason: str) -> None:
    verdict = judge(paired, None, p_holm=None, detectable=None, confidence=0.95, margin=0.01)
    assert verdict == ("under-powered", reason)


def test_a_difference_without_spread_is_not_judged() -> None:
    assert word(Paired(3, 0.1, 0.0, None, None), Interval(0.05, 0.15), None) == "under-powered"


def test_without_items_nothing_holds() -> None:
    verdict = judge(STRONG, None, p_holm=0.002, detectable=0.02, confidence=0.95, margin=0.01)
    assert verdict == ("under-powered", "no interval over test items")


def test_identical_arms_do_not_differ() -> None:
    assert word(Paired(3, 0.0, 0.0, Interval(0.0, 0.0), 1.0), Interval(0.0, 0.0), 1.0) == "does not"


def test_a_small_difference_that_holds_is_called_small() -> None:
    verdict = judge(STRONG, Interval(0.02, 0.08), p_holm=0.002, detectable=0.02, confidence=0.95, margin=0.1)
    assert verdict.word == "holds"
    assert "smaller than the margin" in verdict.reason
