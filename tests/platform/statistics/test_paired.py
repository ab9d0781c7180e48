"""Paired t, detectable effects, Holm, two-way intervals and verdicts, against closed forms and peers."""

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from isoscope.platform.statistics.paired import (
    Interval,
    Paired,
    holm,
    in_family,
    judge,
    minimum_detectable_effect,
    paired_t,
    pairs_needed,
    two_way_interval,
)


def test_paired_t_is_the_textbook_formula() -> None:
    differences = [0.02, 0.05, -0.01, 0.03]
    found = paired_t(differences, confidence=0.95)
    mean, sd = np.mean(differences), np.std(differences, ddof=1)
    half = stats.t.ppf(0.975, 3) * sd / 2
    assert found[:3] == pytest.approx((4, mean, sd))
    assert found.interval == pytest.approx((mean - half, mean + half))
    assert found.p == pytest.approx(2 * stats.t.sf(mean / (sd / 2), 3))


def test_no_interval_below_three_seeds_and_no_scale_of_equal_differences() -> None:
    assert paired_t([0.1, 0.2], confidence=0.95)[3:] == (None, None)
    assert paired_t([0.1], confidence=0.95)[2:] == (None, None, None)
    assert paired_t([0.1, 0.2, 0.3], confidence=0.95).interval is not None
    assert paired_t([0.1, 0.1, 0.1], confidence=0.95)[2:] == (0.0, None, None)
    assert paired_t([0.0, 0.0, 0.0], confidence=0.95)[2:] == (0.0, (0.0, 0.0), 1.0)
    for lost in (math.nan, math.inf, -math.inf):
        without = paired_t([0.1, lost, 0.2], confidence=0.95, scale=abs(lost))
        assert (without.n, math.isfinite(without.mean), *without[2:]) == (3, False, None, None, None)
        assert two_way_interval(np.array([[0.1, lost], [0.2, 0.3], [0.3, 0.1]]), confidence=0.95) is None
    with pytest.raises(ValueError, match="no pairs"):
        paired_t([], confidence=0.95)


@pytest.mark.filterwarnings("ignore:Precision loss:RuntimeWarning")  # of scipy, which tests them nevertheless
@pytest.mark.parametrize("differences", [[0.1 + 0.2, 0.3, 0.3], [1e3 + 0.1 - 1e3, 0.1, 0.1], [0.1, 0.1 + 1e-9, 0.1]])
def test_differences_that_rounding_alone_tells_apart_are_equal(differences: list[float]) -> None:
    """scipy takes the first for a difference with p = 1e-32."""
    assert stats.ttest_1samp(differences, 0.0).pvalue < 1e-8
    assert paired_t(differences, confidence=0.95, scale=1.0)[2:] == (0.0, None, None)
    rounded = [difference - 0.3 for difference in [0.1 + 0.2, 0.3, 0.3]]
    assert paired_t(rounded, confidence=0.95, scale=0.3)[2:] == (0.0, (0.0, 0.0), 1.0)


def test_a_small_spread_that_is_no_rounding_is_tested() -> None:
    differences = [0.3, 0.3 + 1e-5, 0.3 - 1e-5]
    assert paired_t(differences, confidence=0.95).p == pytest.approx(stats.ttest_1samp(differences, 0.0).pvalue)


@pytest.mark.parametrize(
    "n, tests, effect", [(3, 1, 3.3), (5, 1, 1.7), (10, 1, 1.0), (3, 2, 4.6), (3, 3, 5.7), (6, 9, 2.4)]
)
def test_minimum_detectable_effect_at_the_standing_figures(n: int, tests: int, effect: float) -> None:
    assert round(minimum_detectable_effect(n, tests=tests, confidence=0.95, power=0.8), 1) == effect


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("tests", [1, 3])
def test_minimum_detectable_effect_is_found_as_often_as_promised(n: int, tests: int) -> None:
    """With Holm over a family without other effects, its first step decides."""
    effect = minimum_detectable_effect(n, tests=tests, confidence=0.95, power=0.8)
    samples = np.random.default_rng(n).normal(effect, 1.0, size=(20_000, n))
    p = stats.ttest_1samp(samples, 0.0, axis=1).pvalue
    found = [holm([one, *[1.0] * (tests - 1)])[0] < 0.05 for one in p]
    assert np.mean(found) == pytest.approx(0.8, abs=0.01)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closed_test_of_bonferroni(p: list[float]) -> None:
    """Theorem: Holm's adjusted p is the largest Bonferroni p over all sets with this hypothesis."""
    for index, adjusted in enumerate(holm(p)):
        sets = [some for size in range(1, len(p) + 1) for some in combinations(range(len(p)), size) if index in some]
        assert adjusted == pytest.approx(max(min(1.0, len(some) * min(p[i] for i in some)) for some in sets))


def test_holm_counts_no_test_that_gave_no_number() -> None:
    assert holm([0.03, math.nan, 0.01]) == pytest.approx([0.03, math.nan, 0.02], rel=1e-15, nan_ok=True)
    assert holm([]) == []


def test_a_family_counts_the_tests_that_gave_a_number() -> None:
    one, other, same = (paired_t(by_seed, confidence=0.95) for by_seed in ([0.1, 0.2, 0.4], [0.3, 0.1, 0.2], [0.5] * 3))
    effect = minimum_detectable_effect(3, tests=2, confidence=0.95, power=0.8)
    first, second = holm([one.p or 0, other.p or 0])
    assert in_family([one, None, same, other], confidence=0.95, power=0.8) == [
        (first, pytest.approx(effect * (one.sd or 0))),
        *[(None, None)] * 2,
        (second, pytest.approx(effect * (other.sd or 0))),
    ]


def test_two_way_is_the_t_interval_when_items_agree() -> None:
    by_seed = np.array([0.1, 0.3, 0.2, 0.5])
    found = two_way_interval(np.repeat(by_seed[:, None], 50, axis=1), confidence=0.95)
    assert found == pytest.approx(paired_t(list(by_seed), confidence=0.95).interval)


def test_two_way_is_the_interval_over_items_when_seeds_agree() -> None:
    by_item = np.random.default_rng(0).normal(size=80)
    found = two_way_interval(np.repeat(by_item[None], 4, axis=0), confidence=0.95)
    assert found == pytest.approx(tuple(stats.ttest_1samp(by_item, 0.0).confidence_interval(0.95)))


def test_two_way_is_never_narrower_than_seeds_alone() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        table = rng.normal(size=(3, 1)) + rng.normal(size=(1, 30)) + rng.normal(size=(3, 30))
        wide = two_way_interval(table, confidence=0.95)
        alone = paired_t(list(table.mean(axis=1)), confidence=0.95)
        assert wide.low <= alone.interval.low + 1e-12


@pytest.mark.parametrize("shape", [(2, 100), (3, 1)])
def test_two_way_needs_three_seeds_and_two_items(shape: tuple[int, int]) -> None:
    assert two_way_interval(np.ones(shape), confidence=0.95) is None


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("seed_sd, item_sd", [(0.0, 0.3), (0.03, 0.3), (0.1, 0.3), (0.1, 0.0), (0.0, 0.0)])
def test_two_way_covers(seeds: int, seed_sd: float, item_sd: float) -> None:
    """Whichever of seeds and items varies more, the 95 % interval holds the truth 93.5 to 98.5 % of the time."""
    rng = np.random.default_rng([seeds, int(1000 * seed_sd), int(1000 * item_sd)])
    draws, items, truth = 2000, 200, 0.02
    held = 0
    for _ in range(draws):
        table = truth + seed_sd * rng.normal(size=(seeds, 1)) + item_sd * rng.normal(size=(1, items))
        found = two_way_interval(table + 0.4 * rng.normal(size=(seeds, items)), confidence=0.95)
        held += found.holds(truth)
    assert 0.935 <= held / draws <= 0.985


def test_two_way_covers_where_seeds_alone_do_not() -> None:
    """Answers with items that are hard for one arm: t over the seeds misses the variance of the items."""
    rng = np.random.default_rng(7)
    draws, seeds, items = 400, 3, 150
    held = {"two-way": 0, "seeds": 0}
    for _ in range(draws):
        ease = rng.choice([0.0, 1.0], size=(2, 1, items), p=[0.3, 0.7])
        right = rng.random((2, seeds, items)) < 0.1 + 0.8 * ease
        table = right[0].astype(float) - right[1]
        found, alone = two_way_interval(table, confidence=0.95), paired_t(list(table.mean(axis=1)), confidence=0.95)
        held["two-way"] += found.holds(0)
        held["seeds"] += alone.interval is None or alone.interval.holds(0)
    assert 0.93 <= held["two-way"] / draws <= 0.99
    assert held["seeds"] / draws < 0.85


STRONG = Paired(5, 0.05, 0.01, Interval(0.03, 0.07), 0.001)
WEAK = Paired(5, 0.01, 0.03, Interval(-0.03, 0.05), 0.5)


CONSTANT = Paired(3, 0.0, 0.0, Interval(0.0, 0.0), 1.0)
"""Two arms that predict the same class at every seed."""
NEAR, FAR = Interval(0.02, 0.08), Interval(-0.01, 0.11)
UNSEEN = "a true difference of 0.01 could well go unseen"
FEW = {"detectable": None}
CHANCE = "neither is more than 0.01 above chance"
UNKNOWN = "no test: the same difference at every seed, or no number at one"


@pytest.mark.parametrize(
    "paired, two_way, p_holm, options, word, reason",
    [
        (STRONG, NEAR, 0.002, {}, "holds", None),
        (STRONG, FAR, 0.002, {}, "under-powered", None),  # seeds and items
        (STRONG, NEAR, 0.049, {}, "holds", None),
        (STRONG, NEAR, 0.002, {"margin": 0.1}, "holds", "but smaller than the margin 0.1"),
        (STRONG, NEAR, 0.051, {}, "under-powered", "the interval excludes 0, but p after Holm is not below 0.05"),
        (STRONG, FAR, 0.051, {"detectable": 0.05}, "under-powered", UNSEEN),
        (WEAK, Interval(-0.03, 0.05), 0.5, {"margin": 0.05}, "does not", None),
        (WEAK, Interval(-0.03, 0.06), 0.5, {"margin": 0.05}, "under-powered", None),
        (WEAK, Interval(-0.03, 0.05), 0.5, {"margin": 0.04}, "under-powered", None),
        # Absence of significance is no evidence of absence.
        (WEAK, Interval(-0.04, 0.06), 0.5, {"detectable": 0.05}, "under-powered", UNSEEN),
        (None, None, None, FEW, "under-powered", "0 paired seeds: no interval below 3"),
        (Paired(1, 0.5, None, None, None), None, None, FEW, "under-powered", "1 paired seed: no interval below 3"),
        (Paired(2, 0.5, 0.0, None, None), None, None, FEW, "under-powered", "2 paired seeds: no interval below 3"),
        (Paired(3, 0.1, 0.0, None, None), Interval(0.05, 0.15), None, {}, "under-powered", None),  # no spread
        (STRONG, None, 0.002, {}, "under-powered", "no interval over test items"),
        # A number that is no mean over items is judged over seeds.
        (STRONG, None, 0.002, {"items": False}, "holds", "over seeds"),
        (WEAK, None, 0.5, {"items": False, "margin": 0.05}, "does not", "the interval lies within ± 0.05"),
        (WEAK, None, 0.5, {"items": False, "margin": 0.04}, "under-powered", None),
        (CONSTANT, CONSTANT.interval, 1.0, {}, "does not", None),
        # Arms that beat no constant prediction have no verdict; one that does is enough.
        *(
            (paired, paired.interval, p, {"above": above}, "no verdict", CHANCE)
            for paired, p in ((CONSTANT, 1.0), (STRONG, 0.001), (WEAK, 0.5))
            for above in ((0.0, 0.0), (-0.2, 0.01), (0.01, 0.0))
        ),
        *(
            (paired, paired.interval, p, {"above": above}, word, None)
            for paired, p, word in ((CONSTANT, 1.0, "does not"), (STRONG, 0.001, "holds"))
            for above in ((0.4, 0.0), (0.0, 0.011), (0.4, 0.4))
        ),
        (CONSTANT, CONSTANT.interval, 1.0, FEW | {"above": (math.nan, 0.0)}, "no verdict", None),
        (Paired(2, 0.0, 0.0, None, None), None, None, FEW | {"above": (0.0, 0.0)}, "under-powered", None),
        (Paired(3, math.nan, None, None, None), None, None, {"above": (math.nan,) * 2}, "under-powered", UNKNOWN),
    ],
)
def test_a_verdict_follows_from_intervals_p_margin_items_and_chance(
    paired: Paired | None,
    two_way: Interval | None,
    p_holm: float | None,
    options: dict[str, Any],
    word: str,
    reason: str | None,
) -> None:
    found = judge(paired, two_way, p_holm=p_holm, **{"detectable": 0.02, "confidence": 0.95, "margin": 0.01} | options)
    assert found.word == word
    assert reason in (None, found.reason)


@pytest.mark.parametrize("tests", [1, 3])
@pytest.mark.parametrize("effect", [0.3, 1.0, 4.0])
def test_the_pairs_needed_are_the_fewest(effect: float, tests: int) -> None:
    options: dict[str, Any] = {"tests": tests, "confidence": 0.95, "power": 0.8}
    n = pairs_needed(effect, **options)
    assert minimum_detectable_effect(n, **options) <= effect < minimum_detectable_effect(n - 1, **options)


def test_an_effect_needs_two_pairs_and_one_too_small_more_than_are_counted() -> None:
    assert pairs_needed(0.01, tests=1, confidence=0.95, power=0.8) is None
    with pytest.raises(ValueError, match="two pairs"):
        minimum_detectable_effect(1, tests=1, confidence=0.95, power=0.8)
