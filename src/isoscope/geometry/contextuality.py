"""Measure how similar representations of tokens are: at random, of one word, in one sentence, among neighbours."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from isoscope.base.errors import InputError
from isoscope.geometry.array_kinds import Array, beside, least_places, namespace, on_host
from isoscope.geometry.moments import Floats, Ints, as_cloud, as_points, indices, rows_of_each, spectrum, sums

NOTHING = 1e-10
"""Share of the variance of all points below which a word has none."""


class IntraSim(NamedTuple):
    """Means over sentences: as published, and with each word left out of the mean that it is compared with."""

    published: float
    leave_one_out: float


class NeighbourShares(NamedTuple):
    """For each point `[n]`: the share with its attribute among its nearest neighbours, and among all candidates."""

    near: Floats
    chance: Floats


def units(points: ArrayLike) -> Array:
    """Scale each point to length 1; a zero vector stays zero (its cosine with anything is 0). Tensors stay tensors."""
    cloud = as_points(points)
    xp = namespace(cloud)
    lengths = xp.linalg.vector_norm(cloud, axis=1, keepdims=True)
    return cloud / xp.where(lengths > 0, lengths, 1.0)


def avg_sim(points: ArrayLike, groups: ArrayLike | None = None, words: ArrayLike | None = None) -> float:
    """AvgSim: mean cosine over all pairs of points of different `groups` (sentences); over all pairs without groups.

    `words`: without pairs of the same word, too. Exact in O(nd): Σ_{i≠j} û_i·û_j = ‖Σ û‖² − Σ ‖û‖², less the same
    within each group. In [−1, 1]; 0 for isotropic points. Raises `InputError` if there is no such pair. Source:
    Ethayarajh 2019, with all pairs instead of 1,000.
    """
    unit = units(as_cloud(points))
    of = indices(groups, len(unit), "groups")
    found = pairs_apart(unit, of) if words is None else pairs_of_other_words(unit, of, words)
    if found.pairs[0] < 0.5:
        raise InputError("groups: all points are in one group or are one word; expected at least two of each")
    return float(found.cosines[0] / found.pairs[0])


class Pairs(NamedTuple):
    """Sums over ordered pairs of points of different groups, one per row of weights: of their cosines, and of 1."""

    cosines: Floats
    pairs: Floats


def pairs_apart(unit: Floats, groups: Ints, weights: Floats | None = None) -> Pairs:
    """Return the sums over the pairs of unit vectors `[n, d]` that are in different groups.

    `weights` `[B, groups]`: how often each group counts, by its number, such as in draws of a bootstrap. A pair counts
    the product of its groups' weights; copies of a group are no pair. One row of ones by default. O(nd + B·groups·d).
    """
    own, of = np.unique(groups, return_inverse=True)
    total, counts = sums(unit, of)
    weight = np.ones((1, len(own))) if weights is None else weights[:, own]
    squared = weight**2
    cosines = ((weight @ total) ** 2).sum(1) - squared @ (total**2).sum(1)
    return Pairs(cosines, (weight @ counts) ** 2 - squared @ counts.astype(float) ** 2)


def pairs_of_other_words(unit: Floats, groups: Ints, words: ArrayLike, weights: Floats | None = None) -> Pairs:
    """Return the sums of `pairs_apart` without the pairs of one word."""
    cosines, pairs = pairs_apart(unit, groups, weights)
    for rows in _by_word(words, len(unit)):
        if len(rows) > 1:
            own = pairs_apart(unit[rows], groups[rows], weights)
            cosines, pairs = cosines - own.cosines, pairs - own.pairs
    return Pairs(cosines, pairs)


def _by_word(words: ArrayLike, n: int) -> list[Ints]:
    """Return the rows of each word."""
    return rows_of_each(indices(words, n, "words"))


class OfWord(NamedTuple):
    """SelfSim of a word, per row of weights `[B]`, and the rows of its occurrences."""

    rows: Ints
    values: Floats


def self_sims(
    points: ArrayLike,
    words: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    least: int = 2,
    weights: Floats | None = None,
) -> list[OfWord]:
    """Return SelfSim of every word with `least` occurrences in different `groups` (sentences), in the words' order.

    Mean cosine over the pairs of its occurrences in different groups, or over all pairs without groups. `weights`: see
    `pairs_apart`; NaN where the weights leave no pair.
    """
    unit = units(as_cloud(points))
    of = indices(groups, len(unit), "groups")
    found = []
    for rows in _by_word(words, len(unit)):
        if len(np.unique(of[rows])) >= max(least, 2):
            own = pairs_apart(unit[rows], of[rows], weights)
            values = np.full(len(own.pairs), np.nan)
            found.append(OfWord(rows, np.divide(own.cosines, own.pairs, out=values, where=own.pairs > 0.5)))
    return found


def self_sim(points: ArrayLike, words: ArrayLike, groups: ArrayLike | None = None, *, least: int = 2) -> float:
    """SelfSim: mean cosine over the pairs of occurrences of a word, averaged over words with `least` occurrences.

    See `self_sims`. NaN if no word occurs that often. Source: Ethayarajh 2019, with all pairs.
    """
    found = self_sims(points, words, groups, least=least)
    return float(np.mean([word.values[0] for word in found])) if found else float("nan")


def mev(points: ArrayLike, words: ArrayLike, *, least: int = 5) -> float:
    """MEV: the share of variance along the first principal component of a word's occurrences, averaged over words.

    Of words with `least` occurrences that are not all one point; NaN if there is none. It falls with the number of
    occurrences, so compare it with words of other occurrences in random order. Source: Ethayarajh 2019, centred for
    words and random baseline alike.
    """
    cloud = as_cloud(points)
    spectra = [spectrum(cloud[rows]) for rows in _by_word(words, len(cloud)) if len(rows) >= max(least, 2)]
    rounding = NOTHING * cloud.var(axis=0).sum()  # where a vector depends on the word alone, its variance is below this
    shares = [float(one[0] / one.sum()) for one in spectra if one.sum() > rounding]
    return float(np.mean(shares)) if shares else float("nan")


def apart(groups: ArrayLike, slots: ArrayLike, *, seed: int) -> Ints:
    """Return a random order `[n]` of points in which no two points of one group share a slot.

    For pseudo-sentences of the true lengths with words from different sentences: `slots` and `groups` are both the
    sentence of each point, and point `order[i]` takes the place of point i. The largest groups choose first, each the
    emptiest slots, so that an order is found if there is one. Raises `InputError` if there is none.
    """
    of, slot = (indices(one, len(np.asarray(one)), "groups") for one in (groups, slots))
    random, left = np.random.default_rng(seed), np.bincount(slot)
    taken = np.empty(len(of), np.int64)
    for rows in sorted(rows_of_each(of), key=len, reverse=True):
        chosen = np.argsort(random.random(len(left)) - left)[: len(rows)]
        if len(chosen) < len(rows) or left[chosen].min() < 1:
            raise InputError(f"groups: {len(rows)} points of a group, but fewer slots to put them apart; give more")
        taken[rows] = random.permutation(chosen)
        left[chosen] -= 1
    order: Ints = np.empty(len(of), np.int64)
    order[np.argsort(slot, kind="stable")] = np.argsort(taken, kind="stable")
    return order


class OfSentences(NamedTuple):
    """IntraSim of each sentence `[S]`, as published and with each word left out; NaN for a sentence of one word."""

    published: Floats
    leave_one_out: Floats


def intra_sims(points: ArrayLike, sentences: ArrayLike) -> OfSentences:
    """Return the mean cosine of a sentence's words with the mean vector of the sentence, for each sentence in order."""
    cloud = as_cloud(points)
    of = indices(sentences, len(cloud), "sentences")
    total, counts = sums(cloud, of)
    unit = units(cloud)
    cosines = ((unit * means).sum(1) for means in (units(total)[of], units(total[of] - cloud)))
    return OfSentences(*(np.where(counts > 1, np.bincount(of, weights=one) / counts, np.nan) for one in cosines))


def intra_sim(points: ArrayLike, sentences: ArrayLike) -> IntraSim:
    """IntraSim: mean cosine of a sentence's words with the mean vector of the sentence, averaged over sentences.

    In the published form a word is part of the mean that it is compared with. So independent words score .58, .45, .32,
    .20 with 3, 5, 10, 25 words per sentence. With the word left out of the mean, independent words score 0. Sentences
    of one word are skipped; NaN if there is no other sentence.
    """
    found = intra_sims(points, sentences)
    kept = ~np.isnan(found.published)
    return IntraSim(*(float(one[kept].mean()) if kept.any() else float("nan") for one in found))


def neighbour_shares(points: ArrayLike, attribute: ArrayLike, groups: ArrayLike, *, k: int = 5) -> NeighbourShares:
    """Return how many of a point's k nearest points by cosine, from other `groups` (sentences), share its `attribute`.

    Chance is the share among all points of other groups. Computed in the full space, so a map's distortions play no
    part. Raises `InputError` if a point has fewer than k candidates, and for k below 1.
    """
    if k < 1:
        raise InputError(f"k: {k}; expected at least 1")
    unit = units(points)
    value, of = indices(attribute, len(unit), "attribute"), indices(groups, len(unit), "groups")
    other = of[:, None] != of[None]
    if other.sum(1).min() < k:
        raise InputError(f"points: some have fewer than {k} others in other groups")
    similarity = namespace(unit).where(beside(other, unit), unit @ unit.T, -np.inf)
    near: Ints = on_host(least_places(-similarity, k))
    same = value[:, None] == value[None]
    shares: Floats = same[np.arange(len(unit))[:, None], near].mean(1)
    return NeighbourShares(shares, (same & other).sum(1) / other.sum(1))
