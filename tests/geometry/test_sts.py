"""STS: planted agreement, scipy, draws of the bootstrap one by one, and how often its interval covers the truth."""

import numpy as np
import pytest
from scipy import stats

from isoscope.geometry import spearman_of_cosines
from isoscope.geometry.sts import rank_correlation

RANDOM = np.random.default_rng(2)


def test_scores_that_follow_the_cosine_give_one_and_permuted_scores_give_none() -> None:
    angles = RANDOM.uniform(0, np.pi, 400)
    one, other = np.tile([[2.0, 0.0]], (400, 1)), 3.0 * np.column_stack([np.cos(angles), np.sin(angles)])
    found = spearman_of_cosines(one, other, np.exp(-angles))
    np.testing.assert_allclose(found.spearman, 1.0, atol=1e-12)
    assert spearman_of_cosines(one, other, angles).spearman.value == pytest.approx(-1.0)
    assert abs(found.permuted.value) < 0.01
    np.testing.assert_allclose(found.permuted[1:], np.array([-1.96, 1.96]) / np.sqrt(399), rtol=0.1)
    assert found.n == 400


def test_ties_and_every_draw_are_those_of_scipy() -> None:
    values = RANDOM.normal(size=60).round(1)
    scores = (values + RANDOM.normal(size=60)).round(0)
    found = rank_correlation(values, scores, 0.9, draws=50, seed=3)
    assert found.spearman.value == pytest.approx(stats.spearmanr(values, scores).statistic)
    drawn = np.random.default_rng(3).integers(0, 60, (50, 60))
    each = [stats.spearmanr(values[rows], scores[rows]).statistic for rows in drawn]
    np.testing.assert_allclose(found.spearman[1:], np.quantile(each, [0.05, 0.95]))
    order = RANDOM.permutation(60)
    assert rank_correlation(values[order], scores[order]).spearman.value == pytest.approx(found.spearman.value)


def test_the_interval_covers_the_true_correlation_as_often_as_it_says() -> None:
    true, covered = 6 / np.pi * np.arcsin(0.6 / 2), 0
    for seed in range(300):
        one, noise = np.random.default_rng((9, seed)).normal(size=(2, 100))
        interval = rank_correlation(one, 0.6 * one + 0.8 * noise, 0.9, draws=300, seed=seed).spearman
        covered += interval.low <= true <= interval.high
    assert 0.86 <= covered / 300 <= 0.94


def test_without_variance_there_is_no_correlation() -> None:
    found = spearman_of_cosines(np.ones((5, 2)), np.ones((5, 2)), np.arange(5.0))
    assert np.isnan([*found.spearman, *found.permuted]).all()
