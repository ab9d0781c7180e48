"""Choose tokens at random, as a pure function of (seed, epoch, example): to mask, or to predict."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isoscope.data.arrays import Flags, Floats, Indices

Draws = npt.NDArray[np.uint64]
_STEPS = np.uint64(1 << 20)


class TokenDraws:
    """A 64-bit random number for each token of a split, others in every epoch.

    `lengths`: tokens per example. Epoch None gives the same numbers every time, whatever the seed: runs are evaluated
    on the same chosen tokens.
    """

    def __init__(self, lengths: Indices, *, seed: int) -> None:
        self.seed, self.lengths = seed, lengths
        self.starts = np.concatenate([[0], np.cumsum(lengths)])
        self._epoch: int | None = -1
        self._draws: Draws = np.empty(0, np.uint64)

    def of(self, rows: Indices, epoch: int | None) -> Draws:
        """Return the numbers of these examples, `[B, L]`; the largest number stands beyond an example's end."""
        if epoch != self._epoch:
            key = (0, 0, 4) if epoch is None else (self.seed, epoch, 4)
            bits = np.random.PCG64(np.random.SeedSequence(key))
            self._draws, self._epoch = bits.random_raw(int(self.starts[-1])).astype(np.uint64), epoch
        lengths = self.lengths[rows]
        within = np.arange(lengths.max(initial=0))
        inside = within < lengths[:, None]
        at = np.where(inside, self.starts[rows][:, None] + within, 0)
        return np.where(inside, self._draws[at], np.iinfo(np.uint64).max)


def numbers_of_chosen(draws: Draws, candidates: Indices, *, share: float) -> Indices:
    """Return how many of an example's `candidates` to choose: `share` of them, at least 1, `[B]`.

    `share · candidates` is rounded up with the probability of its fraction, by the number of the example's first token.
    """
    wanted = np.floor(share * candidates + _uniform(draws[:, 0], 40)).astype(np.int64)
    return np.minimum(np.maximum(wanted, 1), candidates)


def choose(draws: Draws, candidate: Flags, *, share: float) -> Flags:
    """Return which tokens are chosen, `[B, L]`: those candidates of an example that have its smallest numbers."""
    largest = np.iinfo(np.uint64).max
    rank = np.argsort(np.argsort(np.where(candidate, draws, largest), axis=1, kind="stable"), axis=1, kind="stable")
    wanted = numbers_of_chosen(draws, candidate.sum(1), share=share)
    return (rank < wanted[:, None]) & candidate


class Noise(NamedTuple):
    """What stands in place of a chosen token: [MASK] or another token, each with its share; else the token itself."""

    mask_id: int
    ordinary: Indices
    """Ids of all tokens without the special tokens."""
    masked: float
    random: float

    def put(self, ids: Indices, chosen: Flags, draws: Draws) -> Indices:
        """Return `ids` `[B, L]` with the chosen tokens replaced; the choice used the draws' upper bits only."""
        action = _uniform(draws, 0)
        other = self.ordinary[(_uniform(draws, 20) * len(self.ordinary)).astype(np.int64)]
        noised = np.where(action < self.masked, self.mask_id, np.where(action < self.masked + self.random, other, ids))
        return np.where(chosen, noised, ids)


def _uniform(draws: Draws, shift: int) -> Floats:
    """Return 20 bits of each number as a number in [0, 1)."""
    found: Floats = ((draws >> np.uint64(shift)) % _STEPS) / float(_STEPS)
    return found
