"""Count families of tests: how many findings would chance alone give?"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_FOUND: ContextVar[list[Sequence[float]] | None] = ContextVar("families", default=None)


@contextmanager
def families() -> Iterator[list[Sequence[float]]]:
    """Collect the corrected p of every family that is corrected within the block, wherever that happens."""
    found: list[Sequence[float]] = []
    token = _FOUND.set(found)
    try:
        yield found
    finally:
        _FOUND.reset(token)


def note(corrected: Sequence[float]) -> None:
    """Add the corrected p of a family, NaN for no test, to the innermost `families` block, if there is any."""
    if (found := _FOUND.get()) is not None:
        found.append(corrected)


def by_chance(families: int, *, confidence: float) -> float:
    """Return how many findings chance alone gives in so many families, if no null hypothesis is false.

    Of m tests at level (1 − `confidence`)/m each, 1 − `confidence` reject on average, however they depend on each
    other. Holm's later steps add less than a tenth of that.
    """
    return families * (1 - confidence)
