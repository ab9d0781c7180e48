"""Do several series peak at the same times? The share of common peaks, compared with peaks shuffled within blocks."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DRAWS = 500
BLOCK = 10
"""Neighbouring points among which the null distribution moves a peak: slow trends of the number of peaks stay."""


class Synchrony(NamedTuple):
    """The mean share of common peaks over pairs of series, and its null distribution."""

    observed: float
    null_mean: float
    null_low: float
    null_high: float
    """The central 95 % of the null distribution."""
    p: float
    """Share of the draws, the observation included, that are at least as large."""
    peaks: float
    """Mean number of peaks per series."""


def troughs(series: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where series `[S, T]` have a local minimum; the two ends have none.

    Allocations are negative where a part learns, so that a local minimum is a peak of learning.
    """
    found = np.zeros(series.shape, bool)
    inner = series[:, 1:-1]
    found[:, 1:-1] = (inner < series[:, :-2]) & (inner < series[:, 2:])
    return found


def common_share(peaks: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the mean over pairs of series of |both peak| / |either peaks|, for peaks `[..., S, T]`."""
    first, second = np.triu_indices(peaks.shape[-2], 1)
    one, other = peaks[..., first, :], peaks[..., second, :]
    both, either = (one & other).sum(-1), (one | other).sum(-1)
    return (both / np.maximum(either, 1)).mean(-1)


def synchrony(
    series: NDArray[np.float64], *, block: int = BLOCK, draws: int = DRAWS, seed: int = 0
) -> Synchrony | None:
    """Compare the common peaks of series `[S, T]` with those of peaks that are shuffled within blocks.

    Each draw permutes the `block` points of every block, separately in each series. So each series keeps its number of
    peaks in every block, and only their coincidence is lost. None for fewer than two series, or series shorter than
    three points. Source of the question: Lan et al. 2019 (https://arxiv.org/abs/1909.01440).
    """
    count, length = series.shape
    if count < 2 or length < 3:
        return None
    peaks = troughs(series)
    observed = float(common_share(peaks))
    draw = np.random.default_rng(seed)
    blocks = np.arange(length) // block
    null = np.empty(draws)
    for number in range(draws):
        order = np.lexsort((draw.random((count, length)), np.broadcast_to(blocks, (count, length))), axis=-1)
        null[number] = common_share(np.take_along_axis(peaks, order, -1))
    low, high = np.quantile(null, [0.025, 0.975])
    at_least = (null >= observed - 1e-12).sum()
    p = (1 + float(at_least)) / (1 + draws)
    return Synchrony(observed, float(null.mean()), float(low), float(high), p, float(peaks.sum(-1).mean()))
