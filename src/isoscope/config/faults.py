"""Collect independent faults, to report them together."""

from collections.abc import Iterator
from contextlib import contextmanager

from isoscope.errors import InputError, InputsError


class Faults:
    """Distinct lines of every `InputError` raised within `each()`, in order. `known` lines are not kept again."""

    def __init__(self, known: "Faults | None" = None, place: str = "") -> None:
        self._known, self._place = known, place
        self._lines: dict[str, None] = {}

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(self._lines)

    @contextmanager
    def each(self) -> Iterator[None]:
        """Collect the `InputError` of the block and continue after it."""
        try:
            yield
        except InputError as error:
            self.keep(*error.lines)

    def keep(self, *lines: str) -> list[str]:
        """Add lines; return the new lines."""
        known = self._known.lines if self._known else ()
        new = [line for line in lines if line not in known and f"{self._place}{line}" not in self._lines]
        self._lines |= dict.fromkeys(f"{self._place}{line}" for line in new)
        return new

    def stop(self) -> None:
        """Raise `InputsError` if there are faults."""
        if self._lines:
            raise InputsError(self._lines)
