"""Random choices of the generated tasks, equal on every platform."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 1000  # consecutive known draws before a stock counts as spent


class SpentError(Exception):
    """No distinct texts of a kind are left; the message names the kind and the number of texts."""


class Draws(Random):
    """A private stream of random choices that depends only on `seed`, on every platform and Python version.

    All choices use `random()`: Python guarantees its sequence; `choice` and `shuffle` may change.
    """

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of `choices`, each with equal probability; a repeated choice has twice the probability."""
        return choices[int(self.random() * len(choices))]

    def coin(self, probability: float = 0.5) -> bool:
        """Return True with `probability`."""
        return self.random() < probability

    def shuffled(self, rows: Sequence[T]) -> list[T]:
        """Return `rows` in random order."""
        return sorted(rows, key=lambda _: self.random())
