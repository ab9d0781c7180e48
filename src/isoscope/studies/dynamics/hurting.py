"""How often an allocation of loss hurts, how often surely, and how often noise alone would look so."""

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

CONFIDENCE = 0.95
EXHAUSTIVE = 12
"""With up to this many folds all sign patterns are enumerated, so no seed is needed."""
_TOGETHER = 2**14


class Hurting(NamedTuple):
    """Counts of cases (of `cases`): observed, and expected from noise alone."""

    cases: int
    hurts: int
    """Positive allocations."""
    surely: int
    """Allocations whose 95 % interval is above 0."""
    hurts_by_noise: float
    surely_by_noise: float


def hurts_surely(folds: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which allocations have their two-sided 95 % interval above 0; `folds` `[F, …]` are numbers by fold.

    The interval is mean ± t · sd / √F, t with F − 1 degrees of freedom (2.36 for 8 folds). Of allocations that are
    zero, 2.5 % hurt surely. All-equal folds above 0 hurt surely.
    """
    quantile = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(folds) - 1))
    return folds.mean(0) > quantile * folds.std(0, ddof=1) / np.sqrt(len(folds))


def hurting(folds: NDArray[np.float64], *, flips: int = 4096, seed: int = 0) -> Hurting:
    """Count allocations that hurt and that surely hurt, `folds` `[F, cases]`, with the counts that noise alone gives.

    For noise alone, each case's fold numbers are replaced by their deviations from the mean, times random signs, the
    same for all cases. The expectation is the mean count over all `2^F` sign patterns if F ≤ 12, else over `flips`
    patterns drawn by `seed`. The pattern of equal signs, which gives 0, counts half as positive. A case without
    deviations counts as not moved: it is left out of the expectations. Raises `ValueError` for fewer than two folds.
    """
    number, cases = folds.shape
    if number < 2:
        raise ValueError(f"{number} folds; the noise of an allocation needs at least 2")
    signs = _signs(number, flips, seed)
    deviations = folds - folds.mean(0)
    squares = (deviations**2).sum(0)
    noisy = squares > (1e-12 * np.abs(folds).max(0)) ** 2 * number
    quantile = float(stats.t.ppf(0.5 + CONFIDENCE / 2, number - 1))
    positive = surely = 0.0
    for start in range(0, int(noisy.sum()), _TOGETHER):
        part = np.flatnonzero(noisy)[start : start + _TOGETHER]
        means = signs @ deviations[:, part] / number
        errors = np.sqrt(np.maximum(squares[part] - number * means**2, 0) / (number * (number - 1)))
        rounding = 1e-9 * np.sqrt(squares[part])
        positive += float((means > rounding).sum() + 0.5 * (np.abs(means) <= rounding).sum())
        surely += float((means > np.maximum(quantile * errors, rounding)).sum())
    return Hurting(
        cases=cases,
        hurts=int((folds.mean(0) > 0).sum()),
        surely=int(hurts_surely(folds).sum()),
        hurts_by_noise=positive / len(signs),
        surely_by_noise=surely / len(signs),
    )


def _signs(folds: int, flips: int, seed: int) -> NDArray[np.float64]:
    if folds <= EXHAUSTIVE:
        return np.array(list(itertools.product((1.0, -1.0), repeat=folds)))
    bits = np.random.default_rng(seed).integers(0, 2, (flips, folds))
    return 2.0 * bits.astype(np.float64) - 1.0
