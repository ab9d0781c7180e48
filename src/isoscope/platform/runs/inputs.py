"""The inputs of a run: what was read must be what the digest names."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from isoscope.base.errors import RunError

Now: TypeAlias = Callable[[], Mapping[str, str]]
"""Hashes the inputs again, by role; a role that is left out is not checked."""


class Inputs:
    """The hashes of a run's inputs in its digest, `known`, and how to hash them again, `now`."""

    def __init__(self, title: str, known: Mapping[str, str], now: Now) -> None:
        self.title, self.known, self.now = title, known, now

    def check(self) -> None:
        """Raise `RunError` with the role of an input that is not what the digest names."""
        now = self.now()
        changed = [role for role, known in self.known.items() if now.get(role, known) != known]
        if changed:
            raise RunError(
                f"{self.title}: {changed[0]} has changed since this run began, and a result must not stand under "
                "the digest of other inputs; run the same command again: it resumes if the input is put back"
            )
