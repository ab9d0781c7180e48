"""Agreement of two rankings of a few things: Kendall's tau-b with an exact p, and Spearman's rho."""

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

MOST = 8
"""Up to this many things all permutations are enumerated: 40,320."""


class Agreement(NamedTuple):
    """Rank correlations over n things; NaN if one ranking is a single tie."""

    n: int
    tau: float
    rho: float
    p: float
    """Two-sided, of tau: the share of all permutations whose |tau| is at least as large."""


def agreement(first: NDArray[np.float64], second: NDArray[np.float64]) -> Agreement:
    """Return how well two rankings `[n]` agree, ties included (tau-b). Raises `ValueError` for more than `MOST` things.

    With seven things and no ties, |tau| needs to be at least .71 for p < .05.
    """
    n = len(first)
    if n > MOST:
        raise ValueError(f"{n} things; an exact p is for at most {MOST}")
    own, other = (np.sign(values[:, None] - values[None, :]) for values in (first, second))
    scale = math.sqrt(float((own**2).sum()) * float((other**2).sum()))
    if scale == 0:
        return Agreement(n, math.nan, math.nan, math.nan)
    orders = np.array(list(itertools.permutations(range(n))))
    taus = np.zeros(len(orders))
    for i, j in itertools.product(range(n), repeat=2):
        if own[i, j]:
            taus += own[i, j] * other[orders[:, i], orders[:, j]]
    tau = float((own * other).sum()) / scale
    p = float((np.abs(taus) / scale >= abs(tau) - 1e-9).mean())
    rho = float(np.corrcoef(stats.rankdata(first), stats.rankdata(second))[0, 1])
    return Agreement(n, tau, rho, p)
