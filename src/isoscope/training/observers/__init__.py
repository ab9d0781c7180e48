"""Observers look at a run and change nothing in it: metrics of gradients, weights and points while it trains."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from isoscope.objectives import Objective, Place, Scored


class Context(NamedTuple):
    """What an observer may look at. `updates` is the number of updates of the whole run."""

    model: Any
    optimizer: Any
    objective: Objective
    seed: int
    updates: int
    log_every: int
    """Updates between two points that are logged."""


class Observer:
    """Looks at a run; a subclass overrides what it needs. Metrics are returned by their full names (`fusion/moved`).

    With several processes every observer runs in each of them and sees the same; the first one's metrics are kept.
    """

    name: str
    """Its part of the checkpoint, and what errors call it."""

    def begin(self, context: Context) -> None:
        """Called once, with the weights from before the first update, also where a run is resumed."""

    def places(self, step: int | None) -> Collection[Place]:
        """Where points are wanted from at update `step` (from 1), or of every evaluation (None)."""
        return ()

    def before_update(self, step: int) -> Mapping[str, float]:
        """Called with the gradients of update `step`: reduced over processes and not clipped."""
        return {}

    def after_update(self, step: int, points: Mapping[Place, Tensor]) -> Mapping[str, float]:
        """Called after update `step`; `points` `[n, d]` are the whole batch's, from the update's own forward pass."""
        return {}

    def evaluated(self, scored: Scored, epoch: int | None) -> Mapping[str, float]:
        """Called after an evaluation: of `validation` after `epoch` (0: before training, None: within an epoch), or of
        `test` at the end.
        """
        return {}

    def state(self) -> dict[str, Tensor]:
        """What a resumed run needs of it."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` gave."""


class Observers:
    """The observers of a run, in order, as one."""

    def __init__(self, observers: Collection[Observer]) -> None:
        self._observers = list(observers)

    def begin(self, context: Context) -> None:
        for one in self._observers:
            one.begin(context)

    def places(self, step: int | None) -> list[Place]:
        return list(dict.fromkeys(place for one in self._observers for place in one.places(step)))

    def before_update(self, step: int) -> dict[str, float]:
        return {name: value for one in self._observers for name, value in one.before_update(step).items()}

    def after_update(self, step: int, points: Mapping[Place, Tensor]) -> dict[str, float]:
        return {name: value for one in self._observers for name, value in one.after_update(step, points).items()}

    def evaluated(self, scored: Scored, epoch: int | None) -> dict[str, float]:
        return {name: value for one in self._observers for name, value in one.evaluated(scored, epoch).items()}

    def state(self) -> dict[str, Tensor]:
        return {f"{one.name}/{name}": value for one in self._observers for name, value in one.state().items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        for one in self._observers:
            prefix = f"{one.name}/"
            own = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
            if own:
                one.restore(own)
