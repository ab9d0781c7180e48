"""Do several series peak at the same times? The share of common peaks, beside that of peaks shuffled within blocks.

There is no p. Shuffled peaks may lie side by side, and true peaks never do: at a level of 5 %, such a test rejects
10 to 12 % of independent white noise. And layers share each update and its sentences. Series that share a fluctuation
and nothing else are rejected almost always: no shuffling knows that part.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DRAWS = 500
BLOCK = 10
"""Neighbouring points among which a draw moves a peak: slow trends of the number of peaks stay."""


class Synchrony(NamedTuple):
    """The mean share of common peaks over pairs of series, and what to expect without coincidence."""

    observed: float
    by_chance: float
    """Mean over the draws."""
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


def synchrony(series: NDArray[np.float64], *, draws: int = DRAWS, seed: int = 0) -> Synchrony | None:
    """Return the share of common peaks of series `[S, T]`, and the mean share of peaks shuffled within blocks.

    Each draw permutes the `BLOCK` points of every block, separately in each series; the two ends stay. So each series
    keeps its number of peaks in every block, and only their coincidence is lost. None for fewer than two series, or
    series shorter than three points. Source of the question: Lan et al. 2019 (https://arxiv.org/abs/1909.01440).
    """
    count, length = series.shape
    if count < 2 or length < 3:
        return None
    peaks = troughs(series)
    draw = np.random.default_rng(seed)
    blocks = np.arange(length - 2) // BLOCK
    shares = np.empty(draws)
    for number in range(draws):
        order = np.lexsort((draw.random((count, length - 2)), np.broadcast_to(blocks, (count, length - 2))), axis=-1)
        shares[number] = common_share(np.take_along_axis(peaks[:, 1:-1], order, -1))
    return Synchrony(float(common_share(peaks)), float(shares.mean()), float(peaks.sum(-1).mean()))
