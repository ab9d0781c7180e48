"""Random choices of the generated tasks, equal on every platform."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 1000  # consecutive known draws before a stock counts as spent


class SpentError(Exception):
    """No distinct texts of a kind are left; the message names the kind."""


class Draws:
    """A private stream of random choices that depends only on `seed`, on every platform and Python version.

    All choices use `Random.random()`: Python guarantees its sequence; `choice` and `shuffle` may change.
    """

    def __init__(self, seed: str) -> None:
        self._random = Random(seed).random

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of `choices`, each with equal probability; a repeated choice has twice the probability."""
        return choices[int(self._random() * len(choices))]

    def coin(self, probability: float = 0.5) -> bool:
        """Return True with `probability`."""
        return self._random() < probability

    def shuffled(self, rows: Sequence[T]) -> list[T]:
        """Return `rows` in random order."""
        return sorted(rows, key=lambda _: self._random())
