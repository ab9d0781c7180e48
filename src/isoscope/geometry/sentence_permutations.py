"""Permutations of whole sentences: the null of a similarity of two spaces whose words are in sentences."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isoscope.geometry.moments import Ints, indices

FEWEST_ALIKE = 5
"""Sentences of one length below which these sentences are left out: they could not be exchanged with enough others."""


class Exchangeable(NamedTuple):
    """Items that can be permuted by sentence. `rows`: their numbers, by sentence and place; `lengths`: of sentences."""

    rows: Ints
    lengths: Ints
    left_out: int
    """Sentences whose length is that of fewer than `FEWEST_ALIKE`."""


def exchangeable(sentences: npt.ArrayLike) -> Exchangeable:
    """Return the items of sentences that share their number of items with others; `sentences` `[n]`: each item's."""
    of = indices(sentences, len(np.asarray(sentences)), "sentences")
    counts = np.bincount(of)
    alike = np.bincount(counts)[counts] >= FEWEST_ALIKE
    order = np.argsort(of, kind="stable")
    return Exchangeable(order[alike[of[order]]], counts[alike], int((~alike).sum()))


def exchanged(strata: npt.ArrayLike, *, seed: int, draw: int) -> Ints:
    """Return places `[n]` after a random exchange of items of equal strata; `strata` `[n, …]`: each item's."""
    random = np.random.default_rng((seed, draw))
    of = np.unique(np.asarray(strata), axis=0, return_inverse=True)[1].ravel()
    taken: Ints = np.arange(len(of))
    for stratum in range(of.max() + 1):
        own = np.flatnonzero(of == stratum)
        taken[own] = random.permutation(own)
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
