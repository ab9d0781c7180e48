"""A piece of work for the executor."""

from collections.abc import Callable
from typing import NamedTuple

from isoscope.platform.executor.live_table import Progress


class Piece(NamedTuple):
    """Work that may be killed at any time and resumes when repeated.

    `do` does it in a process of this machine; for Ray it must be picklable. `arguments`: of the command `isoscope` that
    does the same, for a batch system. `alone`: no other command does it now, so that a job which does it already was
    left by a killed command, and may be stopped.
    """

    name: str
    do: Callable[[Progress], str]
    arguments: tuple[str, ...] = ()
    alone: bool = False
