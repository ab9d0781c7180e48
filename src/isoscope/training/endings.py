"""How a training loop ends: finished, interrupted with its state saved, or diverged."""

from typing import NamedTuple

from isoscope.errors import RunError


class DivergedError(RunError):
    """The loss is not finite."""


class InterruptedRunError(Exception):
    """A stop was requested; the state is saved."""


class FitResult(NamedTuple):
    """The epoch whose weights the model now holds, and the total number of updates."""

    epoch: int
    steps: int
