"""Agreement of two rankings: Kendall's tau-b of a few things with an exact p; Spearman's rho with a permutation p."""

import itertools
import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

MOST = 8
"""Up to this many things all permutations are enumerated: 40,320."""


class Agreement(NamedTuple):
    """Rank correlations over n things; NaN if one ranking is a single tie or has a missing value."""

    n: int
    tau: float
    rho: float
    p: float
    """Two-sided, of tau: the share of all permutations whose |tau| is at least as large."""
    least: float
    """The smallest p that any order of the same values has: ties and few things keep it large."""


def agreement(first: NDArray[np.float64], second: NDArray[np.float64]) -> Agreement:
    """Return how well two rankings `[n]` agree, ties included (tau-b). Raises `ValueError` for more than `MOST` things.

    With seven things and no ties, |tau| needs to be at least .71 for p < .05.
    """
    n = len(first)
    if n > MOST:
        raise ValueError(f"{n} things; an exact p is for at most {MOST}")
    own, other = (np.sign(values[:, None] - values[None, :]) for values in (first, second))
    scale = math.sqrt(float((own**2).sum()) * float((other**2).sum()))
    if not scale > 0:  # NaN of a missing value, too
        return Agreement(n, math.nan, math.nan, math.nan, math.nan)
    orders = np.array(list(itertools.permutations(range(n))))
    taus = np.einsum("ij,kij->k", own, other[orders[:, :, None], orders[:, None, :]])  # small whole numbers: exact
    tau, sizes = float((own * other).sum()) / scale, np.abs(taus) / scale
    p, least = (float((sizes >= size - 1e-9).mean()) for size in (abs(tau), sizes.max()))
    return Agreement(n, tau, float(stats.spearmanr(first, second).statistic), p, least)


class RankCorrelation(NamedTuple):
    """Spearman's rho of n things; NaN if one ranking is a single tie in every stratum, or has a missing value."""

    n: int
    rho: float
    p: float
    """Two-sided: the share of the draws, the observation included, whose |rho| is at least as large."""


def rank_correlation(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    *,
    strata: Sequence[Hashable] | None = None,
    draws: int = 9999,
    seed: int = 0,
) -> RankCorrelation:
    """Return Spearman's rho of two rankings `[n]` and its p from random permutations of the second.

    `strata` `[n]`: ranks are compared with the mean rank of their stratum, and permuted within it. So what differs
    between strata, such as the size of a kind of parameters, neither counts nor makes a correlation.
    """
    of = np.unique([0] * len(first) if strata is None else [str(one) for one in strata], return_inverse=True)[1]
    counts = np.maximum(np.bincount(of), 1)
    one, other = (ranks - (np.bincount(of, ranks) / counts)[of] for ranks in map(stats.rankdata, (first, second)))
    scale = math.sqrt(float(one @ one) * float(other @ other))
    if not scale > 1e-9 * len(first):
        return RankCorrelation(len(first), math.nan, math.nan)
    order = np.argsort(of, kind="stable")
    random = np.random.default_rng(seed).random((draws, len(first)))
    drawn = np.lexsort((random, np.broadcast_to(of[order], random.shape)), axis=-1)
    found = np.concatenate([[one @ other], other[order][drawn] @ one[order]]) / scale
    return RankCorrelation(len(first), float(found[0]), float((np.abs(found) >= abs(found[0]) - 1e-9).mean()))
