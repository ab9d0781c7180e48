"""A planted lag is found; curves without a relation give a uniform p."""

import numpy as np
import pytest
from numpy.typing import NDArray

from isoscope.platform.statistics.lagged_correlation import lagged_correlation

SMALL = {"lags": 1, "block": 3, "draws": 199}


def walks(draw: np.random.Generator, length: int, smooth: float = 0.0) -> NDArray[np.float64]:
    """Two independent walks; `smooth` is the correlation of neighbouring changes."""
    changes = draw.standard_normal((2, length))
    for place in range(1, length):
        changes[:, place] += smooth * changes[:, place - 1]
    return changes.cumsum(1)


def share_below(level: float, curves: list[NDArray[np.float64]], **options: int) -> float:
    found = [lagged_correlation(*pair, seed=number, **SMALL | options) for number, pair in enumerate(curves)]
    return float(np.mean([one is not None and one.p <= level for one in found]))


@pytest.mark.parametrize("lag", [-2, 0, 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_planted_lag_is_found(lag: int, sign: int) -> None:
    draw = np.random.default_rng(0)
    changes = draw.standard_normal(44)
    first = changes[2:42].cumsum()
    noise = 0.3 * draw.standard_normal(40)
    second = (sign * changes[2 - lag : 42 - lag] + noise).cumsum() + 5 * np.arange(40)  # a trend changes nothing
    found = lagged_correlation(first, second)
    assert found is not None
    assert (found.lag, found.changes) == (lag, 39)
    assert found.r * sign > 0.9
    assert found.p < 0.01
    others = [value for other, value in found.by_lag.items() if other != lag]
    assert np.abs(others).max() < 0.5


def test_r_is_pearsons_at_each_lag() -> None:
    first, second = walks(np.random.default_rng(1), 30)
    one, other = np.diff(first), np.diff(second)
    found = lagged_correlation(first, second, lags=2)
    assert found is not None
    pairs = {-2: (one[2:], other[:-2]), -1: (one[1:], other[:-1]), 0: (one, other)}
    pairs |= {1: (one[:-1], other[1:]), 2: (one[:-2], other[2:])}
    assert found.by_lag == pytest.approx({lag: np.corrcoef(*pair)[0, 1] for lag, pair in pairs.items()})


def test_independent_walks_give_a_uniform_p() -> None:
    """Short series, as from few snapshots. 600 pairs: the standard error of a share of 5 % is 0.9 %."""
    draw = np.random.default_rng(2)
    pairs = [walks(draw, 16) for _ in range(600)]
    for level in (0.05, 0.2, 0.5):
        assert abs(share_below(level, pairs) - level) < 3.5 * np.sqrt(level * (1 - level) / 600)


def test_the_levels_themselves_would_correlate() -> None:
    """Why changes: two independent walks look related as they are (Yule 1926)."""
    draw = np.random.default_rng(3)
    levels = [np.corrcoef(walks(draw, 40))[0, 1] for _ in range(200)]
    assert np.mean(np.abs(levels) > 0.31) > 0.4, "0.31: the 5 % point of 40 independent pairs"


def test_longer_blocks_are_needed_where_neighbouring_changes_depend() -> None:
    draw = np.random.default_rng(4)
    pairs = [walks(draw, 97, smooth=0.9) for _ in range(150)]
    single, blocks = (share_below(0.05, pairs, lags=0, block=block) for block in (1, 12))
    assert single > 0.25
    assert blocks < 0.6 * single


@pytest.mark.parametrize(
    "first, second",
    [
        (np.arange(10.0), np.random.default_rng(0).random(10)),
        (np.random.default_rng(0).random(10), np.random.default_rng(1).random(10)),
        (np.append(np.random.default_rng(0).random(19), np.nan), np.random.default_rng(1).random(20)),
    ],
    ids=["a constant change", "three blocks", "not a number"],
)
def test_what_cannot_be_tested_has_no_p(first: NDArray[np.float64], second: NDArray[np.float64]) -> None:
    assert lagged_correlation(first, second) is None


def test_curves_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="3 and 4 points"):
        lagged_correlation(np.zeros(3), np.zeros(4))
