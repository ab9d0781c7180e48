"""One failed seed: found at a stated level, and a median whose interval it does not break."""

import numpy as np
import pytest
from scipy import stats

from isoscope.platform.statistics.failed_seed import robust
from isoscope.platform.statistics.paired import paired_t


def apart(differences: list[float]) -> int | None:
    return robust(differences, confidence=0.95).apart


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_in_normal_samples_a_twentieth_have_a_seed_apart(seeds: int) -> None:
    """2,000 samples: the standard error of 5 % is .5 %."""
    draw = np.random.default_rng(seeds)
    found = np.mean([apart(draw.normal(size=seeds).tolist()) is not None for _ in range(2000)])
    assert 0.04 < found < 0.06


@pytest.mark.parametrize("seeds, t, found", [(3, 0.5, 0.4), (5, 0.7, 0.99), (6, 0.75, 0.99), (10, 0.88, 0.99)])
def test_with_a_seed_that_fails_now_and_then_t_fails_and_the_median_does_not(
    seeds: int, t: float, found: float
) -> None:
    """A seed in six falls by thirty times the spread of the others; 1,500 samples."""
    draw = np.random.default_rng(7)
    held, named, medians = [], [], []
    for _ in range(1500):
        failed = draw.random(seeds) < 1 / 6
        values = (0.01 * draw.normal(size=seeds) - 0.3 * failed).tolist()
        interval = paired_t(values, confidence=0.95).interval
        line = robust(values, confidence=0.95)
        held.append(interval.holds(-0.05))
        if failed.sum() == 1:
            named.append(line.apart is not None and bool(failed[line.apart]))
        if line.interval:
            medians.append(line.interval.holds(0.01 * stats.norm.ppf(0.4)))
    assert np.mean(held) < t
    assert np.mean(named) >= found
    assert (np.mean(medians) > 0.945) if seeds >= 6 else not medians


def test_the_medians_interval_is_that_of_the_sign_test() -> None:
    values = np.random.default_rng(1).normal(size=12).tolist()
    found = robust(values, confidence=0.95)
    ordered = sorted(values)
    assert found.interval == (ordered[2], ordered[9])  # 2 · P(at most 2 of 12) = .039; at most 3: .146
    assert found.range == (ordered[0], ordered[-1])


@pytest.mark.parametrize("g, expected", [(1.70, None), (1.73, 4)])
def test_the_bound_is_grubbs(g: float, expected: int | None) -> None:
    """G = (x − mean)/sd of five values; its tabled critical value at 5 % is 1.715."""
    samples = ([-1.0, -0.5, 0.5, 1.0, float(x)] for x in np.linspace(1, 100, 20_000))
    first = next(one for one in samples if (one[-1] - np.mean(one)) / np.std(one, ddof=1) >= g)
    assert apart(first) == expected


def test_too_few_or_equal_differences_have_none() -> None:
    assert robust([0.1, 0.2], confidence=0.95) is None
    assert robust([0.1, np.nan, 0.2], confidence=0.95) is None
    assert apart([0.1, 0.1, 0.1]) is None
    assert apart([0.1, 0.1, 0.9]) == 2
