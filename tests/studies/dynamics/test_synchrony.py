"""Common peaks of series, and what to expect without coincidence."""

import numpy as np
import pytest

from isoscope.studies.dynamics.synchrony import Synchrony, common_share, synchrony, troughs


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
