"""The jackknife over groups: closed form of a mean, and coverage."""

import numpy as np
import pytest
from scipy import stats

from isoscope.statistics.delete_a_group import delete_a_group


def test_of_a_mean_it_is_the_t_interval_over_the_groups_means() -> None:
    values = np.random.default_rng(0).standard_normal((20, 50)).mean(1)
    without = (values.sum() - values) / 19
    found = delete_a_group(values.mean(), without, confidence=0.95)
    peer = stats.t.interval(0.95, 19, values.mean(), stats.sem(values))
    assert found == pytest.approx(peer)


def test_there_is_no_interval_without_finite_estimates() -> None:
    assert delete_a_group(float("nan"), [0.0, 1.0], confidence=0.95) is None
    assert delete_a_group(0.0, [0.0, float("nan")], confidence=0.95) is None
    assert delete_a_group(0.0, [0.0], confidence=0.95) is None
