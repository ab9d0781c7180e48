"""Random draws for the generated corpora, the same on every platform and Python version."""

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 1000  # draws in a row that may all be known before a stock counts as spent


class SpentError(Exception):
    """The stock of distinct texts of one kind ran out; the message names the kind."""


class Draws:
    """A private stream of choices, a function of `seed` alone.

    Every choice comes from `Random.random()`, the one method whose sequence Python promises to keep; `choice` and
    `shuffle` are free to change.
    """

    def __init__(self, seed: str) -> None:
        self._random = Random(seed).random

    def pick(self, choices: Sequence[T]) -> T:
        """One of `choices`, each as likely; one that stands there twice is twice as likely."""
        return choices[int(self._random() * len(choices))]

    def coin(self, probability: float = 0.5) -> bool:
        """True with `probability`."""
        return self._random() < probability

    def sign(self) -> int:
        """+1 or -1."""
        return 1 if self.coin() else -1

    def shuffled(self, rows: Sequence[T]) -> list[T]:
        """`rows` in random order."""
        return sorted(rows, key=lambda _: self._random())

    def until(self, draw: Callable[[], T], fits: Callable[[T], bool], kind: str) -> T:
        """The first result of `draw` that `fits`; raises `SpentError(kind)` after `PATIENCE` that do not."""
        for _ in range(PATIENCE):
            drawn = draw()
            if fits(drawn):
                return drawn
        raise SpentError(kind)
