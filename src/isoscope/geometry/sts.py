"""Semantic textual similarity (STS): does the cosine of two sentence vectors follow what people say?"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from isoscope.base.errors import InputError
from isoscope.geometry.contextuality import units
from isoscope.geometry.dimension import Estimate
from isoscope.geometry.moments import Floats, Ints, linked

DRAWS = 2000
"""Draws of the bootstrap, and of the permutations."""
AT_ONCE = 1 << 22
"""Numbers of a block of draws."""


class RankCorrelation(NamedTuple):
    """Spearman's ρ with its bootstrap interval over pairs; the same for permuted scores; the number of pairs."""

    spearman: Estimate
    permuted: Estimate
    n: int


def spearman_of_cosines(
    one: ArrayLike, other: ArrayLike, scores: ArrayLike, *, confidence: float = 0.95, draws: int = DRAWS, seed: int = 0
) -> RankCorrelation:
    """Return Spearman's ρ of cos(one, other) with people's scores: vectors `[n, d]` of both sentences, scores `[n]`.

    Over all pairs together (SentEval's setting "all"). NaN if all cosines or all scores are equal. Raises `InputError`
    for different numbers of pairs, fewer than 3 pairs, and scores that are not finite.
    """
    first, second = linked(one, other, least=3)
    return rank_correlation((units(first) * units(second)).sum(1), scores, confidence, draws=draws, seed=seed)


def rank_correlation(
    values: ArrayLike, scores: ArrayLike, confidence: float = 0.95, *, draws: int = DRAWS, seed: int = 0
) -> RankCorrelation:
    """Return Spearman's ρ of two variables `[n]`, with its percentile bootstrap over pairs and its permutations.

    A draw of the bootstrap counts each pair 0, 1, 2, … times. Its ranks are sums of counts in the order of the values,
    so no draw is sorted. Raises `InputError` as `spearman_of_cosines`.
    """
    both = [np.asarray(given, np.float64) for given in (values, scores)]
    n = len(both[0])
    if any(given.shape != (n,) or not np.isfinite(given).all() for given in both) or n < 3:
        shapes = " and ".join(str(list(given.shape)) for given in both)
        raise InputError(f"scores: expected as many finite numbers as pairs, at least 3; got {shapes}")
    places = [np.unique(given.round(12), return_inverse=True)[1] for given in both]  # equal cosines differ by rounding
    whole = np.ones((1, n))
    fixed, moved = (_ranks(of, whole) for of in places)
    rho = float(_correlations(fixed, moved, whole)[0])
    if np.isnan(rho):
        return RankCorrelation(Estimate(rho, rho, rho), Estimate(rho, rho, rho), n)
    random, resampled, permuted = np.random.default_rng(seed), np.empty(draws), np.empty(draws)
    for begin in range(0, draws, max(1, AT_ONCE // n)):
        rows = np.arange(begin, min(begin + max(1, AT_ONCE // n), draws))
        taken = random.integers(0, n, (len(rows), n)) + n * (rows - begin)[:, None]
        counts = np.bincount(taken.ravel(), minlength=taken.size).reshape(taken.shape).astype(np.float64)
        resampled[rows] = _correlations(_ranks(places[0], counts), _ranks(places[1], counts), counts)
        permuted[rows] = _correlations(fixed, random.permuted(np.repeat(moved, len(rows), 0), axis=1), whole)
    ends = (1 - confidence) / 2, (1 + confidence) / 2
    spread, null = (map(float, np.nanquantile(one, ends)) for one in (resampled, permuted))
    return RankCorrelation(Estimate(rho, *spread), Estimate(float(permuted.mean()), *null), n)


def _ranks(places: Ints, weights: Floats) -> Floats:
    """Return the mean rank of each pair `[draws, n]`, less ½, if pair i occurs `weights[:, i]` times.

    `places`: the index of each pair's value among the different values, rising.
    """
    order = np.argsort(places, kind="stable")
    firsts = np.flatnonzero(np.diff(places[order], prepend=-1))
    counts = np.add.reduceat(weights[:, order], firsts, axis=1)
    found: Floats = (np.cumsum(counts, axis=1) - counts / 2)[:, places]
    return found


def _correlations(one: Floats, other: Floats, weights: Floats) -> Floats:
    """Return Pearson's correlation of each draw `[draws]`; NaN for a draw without variance."""
    total = weights.sum(1, keepdims=True)
    a, b = (ranks - (weights * ranks).sum(1, keepdims=True) / total for ranks in (one, other))
    size = np.sqrt((weights * a * a).sum(1) * (weights * b * b).sum(1))
    product = (weights * a * b).sum(1)
    found: Floats = np.divide(product, size, out=np.full_like(product, np.nan), where=size > 0)
    return found
