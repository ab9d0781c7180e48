"""Semantic textual similarity (STS): does the cosine of two sentence vectors follow what people say?"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from isoscope.base.errors import InputError
from isoscope.geometry.array_kinds import on_host
from isoscope.geometry.contextuality import units
from isoscope.geometry.dimension import Estimate
from isoscope.geometry.moments import Floats, linked

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
    for different numbers of pairs or dimensions, fewer than 3 pairs, and scores that are not finite.
    """
    first, second = linked(on_host(one), on_host(other), least=3, one_width=True)
    return rank_correlation((units(first) * units(second)).sum(1), scores, confidence, draws=draws, seed=seed)


def rank_correlation(
    values: ArrayLike, scores: ArrayLike, confidence: float = 0.95, *, draws: int = DRAWS, seed: int = 0
) -> RankCorrelation:
    """Return Spearman's ρ of two variables `[n]`, with its percentile bootstrap over pairs and its permutations.

    Raises `InputError` as `spearman_of_cosines`.
    """
    one, other = (np.asarray(given, np.float64).round(12) for given in (values, scores))  # equal up to rounding
    if one.shape != other.shape or one.ndim != 1 or len(one) < 3 or not np.isfinite([one, other]).all():
        shapes = f"{list(one.shape)} and {list(other.shape)}"
        raise InputError(f"scores: expected as many finite numbers as pairs, at least 3; got {shapes}")
    random, n, resampled, permuted = np.random.default_rng(seed), len(one), [], []
    fixed, moved = (rankdata(given)[None] for given in (one, other))
    for begin in range(0, draws, block := max(1, AT_ONCE // n)):
        rows = random.integers(0, n, (min(block, draws - begin), n))
        resampled.append(_correlations(*(rankdata(given[rows], axis=1) for given in (one, other))))
        permuted.append(_correlations(fixed, random.permuted(np.broadcast_to(moved, rows.shape), axis=1)))
    ends = (1 - confidence) / 2, (1 + confidence) / 2
    rho, drawn, null = float(_correlations(fixed, moved)[0]), *map(np.concatenate, (resampled, permuted))
    known = (found if np.isnan(rho) else found[~np.isnan(found)] for found in (drawn, null))
    spread, around = (map(float, np.quantile(found, ends)) for found in known)
    return RankCorrelation(Estimate(rho, *spread), Estimate(float(null.mean()), *around), n)


def _correlations(one: Floats, other: Floats) -> Floats:
    """Return Pearson's correlation of each row; NaN for a row without variance."""
    a, b = (ranks - ranks.mean(1, keepdims=True) for ranks in (one, other))
    size, product = np.sqrt((a * a).sum(1) * (b * b).sum(1)), (a * b).sum(1)
    found: Floats = np.divide(product, size, out=np.full_like(product, np.nan), where=size > 0)
    return found
