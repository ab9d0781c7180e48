"""Statistics of loss change allocation: hurting parts, common peaks, and agreement of ranks."""

import itertools

import numpy as np
import pytest
from scipy import stats

from isoscope.platform.statistics.hurting import hurting, hurts_surely
from isoscope.platform.statistics.rank_agreement import agreement, rank_correlation
from isoscope.platform.statistics.synchrony import Synchrony, common_share, synchrony, troughs


def test_the_bound_is_students() -> None:
    """Eight numbers of mean 1: the lower bound is 0 where sd/√8 is 1 / 2.3646."""
    shape = np.array([1, -1, 1, -1, 1, -1, 1, -1]) * np.sqrt(7 / 8)  # of sd 1
    edge = np.sqrt(8) / 2.364624
    folds = 1 + np.stack([shape * edge * 0.999, shape * edge * 1.001], 1)
    assert hurts_surely(folds).tolist() == [True, False]
    assert hurts_surely(np.full((8, 1), 0.3)).tolist() == [True]
    assert hurts_surely(np.zeros((8, 1))).tolist() == [False]


def test_expectations_need_no_draw_for_few_folds_and_a_stated_draw_for_many() -> None:
    draw = np.random.default_rng(1)
    few, many = draw.standard_normal((4, 500)), draw.standard_normal((16, 500))
    assert hurting(few) == hurting(few, flips=1, seed=3)
    assert hurting(many, flips=2000) == hurting(many, flips=2000)
    assert hurting(many, flips=2000, seed=1) != hurting(many, flips=2000)
    assert hurting(many, flips=2000).surely_by_noise / 500 == pytest.approx(0.025, abs=0.01)


def test_noise_is_counted_from_deviations_alone() -> None:
    """A shift changes what is observed, not what noise gives."""
    folds = np.random.default_rng(2).standard_normal((8, 4000))
    plain, shifted = hurting(folds), hurting(folds - 3)
    assert shifted.hurts < 20 < plain.hurts
    assert shifted.hurts_by_noise == pytest.approx(plain.hurts_by_noise)
    assert shifted.surely_by_noise == pytest.approx(plain.surely_by_noise)


def test_what_did_not_move_neither_hurts_nor_is_expected_to() -> None:
    folds = np.concatenate([np.zeros((8, 30)), np.random.default_rng(3).standard_normal((8, 10))], 1)
    found = hurting(folds)
    assert found.cases == 40
    assert found.hurts_by_noise == pytest.approx(5.0)


def test_one_fold_has_no_noise() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        hurting(np.zeros((1, 3)))


def test_troughs_are_local_minima_without_the_ends() -> None:
    series = np.array([[0.0, -1.0, 0.0, 0.0, -2.0, -3.0]])
    assert troughs(series).tolist() == [[False, True, False, False, False, False]]


def test_the_share_is_the_mean_over_pairs() -> None:
    peaks = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]], bool)
    assert common_share(peaks) == pytest.approx((1 / 3 + 0 + 0) / 3)


@pytest.mark.parametrize("shape", [(2, 60), (3, 80), (6, 100)])
@pytest.mark.parametrize("trend", [False, True], ids=["white noise", "peaks in the second half only"])
def test_the_share_by_chance_is_that_of_independent_series(shape: tuple[int, int], trend: bool) -> None:
    """300 tries: the standard error of their mean difference is at most .004. A shared trend is no synchrony."""
    draw = np.random.default_rng(1)
    smooth = np.tile(np.linspace(-5, -1, 60), (shape[0], 1))
    found = []
    for _ in range(300):
        noise = draw.normal(size=shape)
        one = synchrony(np.concatenate([smooth, noise], axis=1) if trend else noise, draws=10)
        found.append(one.observed - one.by_chance)
    assert abs(np.mean(found)) < 0.01


def test_equal_series_have_all_peaks_in_common() -> None:
    found = synchrony(np.tile(np.random.default_rng(1).normal(size=80), (3, 1)), draws=99)
    assert found.observed == 1
    assert found.by_chance < 0.4


def test_a_shared_fluctuation_alone_gives_common_peaks_so_there_is_no_p() -> None:
    """Layers that share each update's sentences: no test over shuffled peaks could keep its level here."""
    draw = np.random.default_rng(3)
    above = []
    for _ in range(50):
        one = synchrony(draw.normal(size=100) + 0.7 * draw.normal(size=(4, 100)), draws=10)
        above.append(one.observed > one.by_chance)
    assert np.mean(above) == 1
    assert "p" not in Synchrony._fields


def test_one_series_or_two_points_have_none() -> None:
    assert synchrony(np.zeros((1, 50))) is None
    assert synchrony(np.zeros((3, 2))) is None


@pytest.mark.parametrize("second", [[1, 2, 3, 4, 5, 6, 7], [2, 1, 4, 3, 7, 6, 5], [24, 24, 24, 29, 24, 2, 24]])
def test_as_scipy(second: list[int]) -> None:
    first, other = np.array([0, 9, 4, 4, 1, 7, 3.0]), np.array(second, float)
    found = agreement(first, other)
    assert found.tau == pytest.approx(stats.kendalltau(first, other).statistic)
    assert found.rho == pytest.approx(stats.spearmanr(first, other).statistic)


def test_the_exact_p_is_scipys_without_ties() -> None:
    first, other = np.arange(7.0), np.array([1, 0, 2, 4, 3, 6, 5.0])
    assert agreement(first, other).p == pytest.approx(stats.kendalltau(first, other, method="exact").pvalue)


def test_a_single_tie_has_no_order_and_nine_things_are_refused() -> None:
    assert np.isnan(agreement(np.ones(4), np.arange(4.0)).tau)
    missing = np.array([1.0, 2.0, np.nan, 4.0])
    for one in (agreement, rank_correlation):
        assert np.isnan(one(missing, np.arange(4.0)).p)
    with pytest.raises(ValueError, match="9 things"):
        agreement(np.arange(9.0), np.arange(9.0))


def test_rho_and_its_p_as_by_enumeration() -> None:
    first, second = np.array([0, 9, 4, 4, 1, 7, 3.0]), np.array([2, 8, 9, 4, 0, 5, 3.0])
    rho = stats.spearmanr(first, second).statistic
    found = rank_correlation(first, second, draws=4000)
    assert (found.n, found.rho) == (7, pytest.approx(rho))
    ranks = stats.rankdata(first), np.array([*itertools.permutations(stats.rankdata(second))])
    centred = [one - 4 for one in ranks]
    every = centred[1] @ centred[0] / np.sqrt((centred[0] ** 2).sum() * (centred[1][0] ** 2).sum())
    exact = np.mean(np.abs(every) >= abs(rho) - 1e-9)
    assert 0.02 < exact < 0.2
    assert found.p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 4000))


def test_differences_between_strata_alone_are_no_correlation_within_them() -> None:
    """Two kinds of things, large and small in both quantities: without strata every p is small, with them 5 %."""
    draw = np.random.default_rng(0)
    strata = np.repeat(["large", "small"], 10)
    small = {"strata": [], "none": []}
    for seed in range(200):
        first, second = (draw.standard_normal(20) + 5 * (strata == "large") for _ in range(2))
        small["strata"].append(rank_correlation(first, second, strata=strata.tolist(), draws=99, seed=seed).p <= 0.05)
        small["none"].append(rank_correlation(first, second, draws=99, seed=seed).p <= 0.05)
    assert np.mean(small["none"]) > 0.95
    assert abs(np.mean(small["strata"]) - 0.05) < 3.5 * np.sqrt(0.05 * 0.95 / 200)


def test_a_relation_within_strata_is_found_against_the_relation_between_them() -> None:
    draw = np.random.default_rng(1)
    strata = np.repeat(range(5), 6)
    first = draw.standard_normal(30)
    second = first + 0.3 * draw.standard_normal(30)
    found = rank_correlation(first - 10 * strata, second + 10 * strata, strata=strata.tolist(), draws=999)
    assert found.rho > 0.8
    assert found.p < 0.01
    assert rank_correlation(first - 10 * strata, second + 10 * strata, draws=99).rho < -0.8


def test_ties_in_every_stratum_have_no_order() -> None:
    found = rank_correlation(np.array([1.0, 1.0, 2.0, 2.0]), np.arange(4.0), strata=["a", "a", "b", "b"], draws=9)
    assert np.isnan([found.rho, found.p]).all()


def test_ties_bound_the_smallest_p() -> None:
    """Of 2, 29 and five equal counts, 2 of 42 orders are as extreme as the most extreme; three things have 2 of 6."""
    published, ours = np.array([2, 29, 24, 24, 24, 24, 24.0]), np.arange(7.0)
    assert agreement(ours, published).least == pytest.approx(2 / 42)
    assert agreement(np.arange(3.0), np.array([1, 0, 2.0])).least == pytest.approx(2 / 6)
