"""Shares of a score by test item: numbers that average to the score, for intervals over items."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class ItemShares(NamedTuple):
    """A score of the test split as shares of its items `[n]`, which average to it; `constant`: of the best constant
    prediction; `sign`: −1 if less is better.
    """

    shares: Floats
    constant: float
    sign: int = 1

    @property
    def score(self) -> float:
        """The score of the test split."""
        return float(self.shares.mean())

    def above(self, mean: float) -> float:
        """Return by how much a mean of the score is better than a constant prediction."""
        return float(self.sign * (mean - self.constant))


def of_ratio(part: Floats, whole: Floats) -> Floats:
    """Return shares `[n, …]` of the ratio Σ part / Σ whole over items: the ratio plus its influence function.

    First order in 1/n, as the jackknife (Efron 1982). A ratio whose whole is 0 is 0.
    """
    total = whole.sum(axis=0)
    ratio = np.divide(part.sum(axis=0), total, out=np.zeros_like(total), where=total > 0)
    scale = np.divide(len(part), total, out=np.zeros_like(total), where=total > 0)
    return np.asarray(ratio + scale * (part - ratio * whole))
