"""Do the changes of one curve go with those of another, some points later? Correlations by lag, with one p for all."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LAGS, BLOCK, DRAWS = 2, 3, 999
FEWEST_BLOCKS = 4
"""Fewer blocks have fewer than 24 orders, so p cannot be below 0.05."""


class LaggedCorrelation(NamedTuple):
    """The lag with the largest |r|. Positive: the second curve follows the first."""

    lag: int
    r: float
    p: float
    """Share of the draws, the observation included, whose largest |r| over all lags is at least as large."""
    changes: int
    """Number of changes of each curve."""
    by_lag: dict[int, float]


def lagged_correlation(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    *,
    lags: int = LAGS,
    block: int = BLOCK,
    draws: int = DRAWS,
    seed: int = 0,
) -> LaggedCorrelation | None:
    """Correlate the changes of two curves `[T]` from point to point, at lags from −`lags` to `lags` points.

    At lag k, Pearson's r of `first[t + 1] − first[t]` and `second[t + k + 1] − second[t + k]`. Differences remove a
    linear trend of the curves; what trends in the differences stays, so that two curves of one shape correlate. Each
    draw puts blocks of `block` neighbouring changes of the second curve in another order: dependence within a block
    stays. p is exact if the blocks of changes are exchangeable (and `block` divides their number). A common envelope,
    such as large changes early in both curves, breaks this: p is then too small. None for fewer than `FEWEST_BLOCKS`
    blocks, for a straight line, and for a value that is not finite. Raises `ValueError` for curves of unequal length.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} points; both curves need the same points")
    one, other = np.diff(first), np.diff(second)
    blocks = np.arange(len(other)) // block
    count = int(blocks[-1]) + 1 if len(blocks) else 0
    if count < FEWEST_BLOCKS or len(one) - lags < 3 or not np.isfinite([one, other]).all():
        return None
    if any(np.ptp(np.diff(curve)) <= 1e-12 * np.abs(curve).max() for curve in (first, second)):
        return None
    keys = np.random.default_rng(seed).random((draws, count))
    orders = np.argsort(keys[:, blocks], axis=1, kind="stable")
    every = np.vstack([other, other[orders]])
    by_lag = {lag: _correlations(one, every, lag) for lag in range(-lags, lags + 1)}
    largest = np.max(np.abs(list(by_lag.values())), axis=0)
    p = float((largest >= largest[0] - 1e-12).mean())
    observed = {lag: float(values[0]) for lag, values in by_lag.items()}
    best = max(observed, key=lambda lag: abs(observed[lag]))
    return LaggedCorrelation(best, observed[best], p, len(one), observed)


def _correlations(one: NDArray[np.float64], every: NDArray[np.float64], lag: int) -> NDArray[np.float64]:
    """Return Pearson's r of `one` `[n]` with each row of `every` `[draws, n]` at a lag; 0 where one is constant."""
    length = len(one) - abs(lag)
    early = one[max(0, -lag) :][:length]
    late = every[:, max(0, lag) :][:, :length]
    early, late = early - early.mean(), late - late.mean(1, keepdims=True)
    scale = np.sqrt((early**2).sum() * (late**2).sum(1))
    return np.divide(late @ early, scale, out=np.zeros(len(every)), where=scale > 0)
