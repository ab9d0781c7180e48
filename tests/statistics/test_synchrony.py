"""Synchrony of peaks: closed forms, the null distribution's coverage, trends."""

import numpy as np
import pytest

from isoscope.statistics.synchrony import common_share, synchrony, troughs


def test_troughs_are_local_minima_without_the_ends() -> None:
    series = np.array([[0.0, -1.0, 0.0, 0.0, -2.0, -3.0]])
    assert troughs(series).tolist() == [[False, True, False, False, False, False]]


def test_the_share_is_the_mean_over_pairs() -> None:
    peaks = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]], bool)
    assert common_share(peaks) == pytest.approx((1 / 3 + 0 + 0) / 3)


def test_independent_series_are_rarely_synchronous_and_equal_series_always() -> None:
    draw = np.random.default_rng(1)
    ps = [found.p for _ in range(60) if (found := synchrony(draw.normal(size=(3, 80)), draws=99))]
    assert np.mean(np.array(ps) <= 0.1) < 0.25
    series = np.tile(draw.normal(size=80), (3, 1))
    found = synchrony(series, draws=99)
    assert found is not None
    assert found.observed == 1
    assert found.p == pytest.approx(0.01)


def test_a_shared_trend_of_the_number_of_peaks_is_no_synchrony() -> None:
    """All series are smooth at first and noisy later: peaks fall together in time, but not in the same points."""
    draw = np.random.default_rng(2)
    smooth = np.linspace(-5, -1, 100)
    ps = []
    for _ in range(40):
        noisy = draw.normal(size=(4, 100))
        found = synchrony(np.concatenate([np.tile(smooth, (4, 1)), noisy], axis=1), draws=99)
        assert found is not None
        ps.append(found.p)
    assert np.mean(np.array(ps) <= 0.1) < 0.3


def test_one_series_or_two_points_have_none() -> None:
    assert synchrony(np.zeros((1, 50))) is None
    assert synchrony(np.zeros((3, 2))) is None
