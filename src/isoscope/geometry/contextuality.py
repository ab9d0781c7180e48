"""Measure how similar representations of tokens are: at random, of one word, in one sentence, among neighbours."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isoscope.errors import InputError
from isoscope.geometry.moments import Floats, Ints, as_cloud, indices, sums


class IntraSim(NamedTuple):
    """Means over sentences: as published, and with each word left out of the mean that it is compared with."""

    published: float
    leave_one_out: float


class NeighbourShares(NamedTuple):
    """For each point `[n]`: the share with its attribute among its nearest neighbours, and among all candidates."""

    near: Floats
    chance: Floats


def units(points: npt.ArrayLike) -> Floats:
    """Scale each point to length 1; a zero vector stays zero (its cosine with anything is 0)."""
    cloud = as_cloud(points)
    lengths = np.linalg.norm(cloud, axis=1, keepdims=True)
    return np.divide(cloud, lengths, out=np.zeros_like(cloud), where=lengths > 0)


def avg_sim(points: npt.ArrayLike, groups: npt.ArrayLike | None = None) -> float:
    """AvgSim: mean cosine over all pairs of points of different `groups` (sentences); over all pairs without groups.

    Exact in O(nd): Σ_{i≠j} û_i·û_j = ‖Σ û‖² − Σ ‖û‖², less the same within each group. In [−1, 1]; 0 for isotropic
    points. Raises `InputError` if all points are in one group. Source: Ethayarajh 2019, with all pairs instead of
    1,000.
    """
    unit = units(points)
    of = indices(np.arange(len(unit)) if groups is None else groups, len(unit), "groups")
    own, counts = sums(unit, of)
    pairs = float(len(unit)) ** 2 - float((counts.astype(float) ** 2).sum())
    if pairs == 0:
        raise InputError("groups: all points are in one group; expected at least two groups")
    total = own.sum(0)
    return float(total @ total - (own**2).sum()) / pairs


def self_sim(points: npt.ArrayLike, words: npt.ArrayLike, *, least: int = 2) -> float:
    """SelfSim: mean cosine over the pairs of occurrences of a word, averaged over words with `least` occurrences.

    NaN if no word occurs that often. Source: Ethayarajh 2019, with all pairs.
    """
    unit = units(points)
    of = indices(words, len(unit), "words")
    total, counts = sums(unit, of)
    own = np.bincount(of, weights=(unit**2).sum(1))
    kept = counts >= max(least, 2)
    if not kept.any():
        return float("nan")
    n = counts[kept].astype(float)
    return float((((total[kept] ** 2).sum(1) - own[kept]) / (n * (n - 1))).mean())


def intra_sim(points: npt.ArrayLike, sentences: npt.ArrayLike) -> IntraSim:
    """IntraSim: mean cosine of a sentence's words with the mean vector of the sentence, averaged over sentences.

    In the published form a word is part of the mean that it is compared with. So independent words score .58, .45, .32,
    .20 with 3, 5, 10, 25 words per sentence. With the word left out of the mean, independent words score 0. Sentences
    of one word are skipped; NaN if there is no other sentence.
    """
    cloud = as_cloud(points)
    of = indices(sentences, len(cloud), "sentences")
    total, counts = sums(cloud, of)
    kept = counts > 1
    if not kept.any():
        return IntraSim(float("nan"), float("nan"))
    unit = units(cloud)
    cosines = ((unit * means).sum(1) for means in (units(total)[of], units(total[of] - cloud)))
    return IntraSim(*(float((np.bincount(of, weights=one) / counts)[kept].mean()) for one in cosines))


def neighbour_shares(
    points: npt.ArrayLike, attribute: npt.ArrayLike, groups: npt.ArrayLike, *, k: int = 5
) -> NeighbourShares:
    """Return how many of a point's k nearest points by cosine, from other `groups` (sentences), share its `attribute`.

    Chance is the share among all points of other groups. Computed in the full space, so a map's distortions play no
    part. Raises `InputError` if a point has fewer than k candidates, and for k below 1.
    """
    if k < 1:
        raise InputError(f"k: {k}; expected at least 1")
    unit = units(points)
    value, of = (np.unique(np.asarray(one), return_inverse=True)[1].ravel() for one in (attribute, groups))
    if not len(value) == len(of) == len(unit):
        raise InputError(f"{len(unit)} points, {len(value)} attributes, {len(of)} groups: expected equal numbers")
    other = of[:, None] != of[None]
    if other.sum(1).min() < k:
        raise InputError(f"points: some have fewer than {k} others in other groups")
    similarity = np.where(other, unit @ unit.T, -np.inf)
    near: Ints = np.argpartition(-similarity, k - 1, axis=1)[:, :k]
    same = value[:, None] == value[None]
    shares: Floats = same[np.arange(len(unit))[:, None], near].mean(1)
    return NeighbourShares(shares, (same & other).sum(1) / other.sum(1))
