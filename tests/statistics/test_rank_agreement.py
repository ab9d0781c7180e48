"""Kendall's tau-b and Spearman's rho with ties, against scipy; the exact p."""

import numpy as np
import pytest
from scipy import stats

from isoscope.statistics.rank_agreement import agreement


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
    with pytest.raises(ValueError, match="9 things"):
        agreement(np.arange(9.0), np.arange(9.0))
