"""Agreement of ranks: Kendall's tau, Spearman's rho, within strata."""

import itertools

import numpy as np
import pytest
from scipy import stats

from isoscope.platform.statistics.rank_agreement import agreement, rank_correlation


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
