"""Groups and permutations of whole sentences, for jackknife and null of a similarity: their words belong together."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from isoscope.base.errors import InputError
from isoscope.geometry.moments import Ints, indices, rows_of_each

FEWEST_ALIKE = 5
"""Sentences of one length below which these sentences are left out: they could not be exchanged with enough others."""

GROUPS = 20
"""Groups of sentences of a jackknife."""


class Exchangeable(NamedTuple):
    """Items that can be permuted by sentence. `rows`: their numbers, by sentence and place; `lengths`: of sentences."""

    rows: Ints
    lengths: Ints
    left_out: int
    """Sentences whose length is that of fewer than `FEWEST_ALIKE`."""


def exchangeable(sentences: ArrayLike) -> Exchangeable:
    """Return the items of sentences that share their number of items with others; `sentences` `[n]`: each item's."""
    of = indices(sentences, len(np.asarray(sentences)), "sentences")
    counts = np.bincount(of)
    alike = np.bincount(counts)[counts] >= FEWEST_ALIKE
    order = np.argsort(of, kind="stable")
    return Exchangeable(order[alike[of[order]]], counts[alike], int((~alike).sum()))


def exchanged(strata: ArrayLike, *, seed: int, draw: int) -> Ints:
    """Return places `[n]` after a random exchange of items of equal strata; `strata` `[n, …]`: each item's.

    The items of a stratum move along a random circle, so that none stays: a fixed item would be similar in both spaces.
    Only an item without another of its stratum stays.
    """
    random = np.random.default_rng((seed, draw))
    of = np.unique(np.asarray(strata), axis=0, return_inverse=True)[1].ravel()
    taken: Ints = np.arange(len(of))
    for rows in rows_of_each(of):
        own = random.permutation(rows)
        taken[own] = np.roll(own, 1)
    return taken


def permuted(lengths: Ints, *, seed: int, draw: int, halves: Ints | None = None) -> Ints:
    """Return places `[items]` after a random exchange of sentences of equal length; words keep their place in them.

    `lengths`: of each sentence; `halves`: number of its half, within which it is exchanged.
    """
    starts = np.cumsum(lengths) - lengths
    strata = np.column_stack([lengths, np.zeros_like(lengths) if halves is None else halves])
    taken = exchanged(strata, seed=seed, draw=draw)
    within = np.arange(int(lengths.sum())) - np.repeat(starts, lengths)
    found: Ints = np.repeat(starts[taken], lengths) + within
    return found


def sentence_groups(lengths: Ints, count: int, *, seed: int) -> Ints:
    """Return the number of each sentence's group, 0 … count − 1: random groups of equal size and like lengths.

    Raises `InputError` for fewer sentences than groups.
    """
    if len(lengths) < count:
        raise InputError(f"sentences: {len(lengths)}, for {count} groups; give more")
    order = np.lexsort((np.random.default_rng(seed).random(len(lengths)), lengths))
    found: Ints = np.empty(len(lengths), np.int64)
    found[order] = np.arange(len(lengths)) % count
    return found
