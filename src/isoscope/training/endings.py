"""How a training loop ends: finished, interrupted with its state saved, or diverged."""

from typing import NamedTuple

from isoscope.errors import RunError


class DivergedError(RunError):
    """The loss is no longer a number."""


class InterruptedRunError(Exception):
    """A stop was asked for; the state is saved."""


class Fitted(NamedTuple):
    """The epoch whose weights the model now holds, and updates done in all."""

    epoch: int
    steps: int
