"""Observe a run without changing it: metrics of gradients, weights and points during training."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from torch import Tensor

from isoscope.base.errors import RunError
from isoscope.models import build
from isoscope.objectives import Objective, Place, Scored
from isoscope.training.ranks import Ranks

Value = TypeVar("Value")


class Context(NamedTuple):
    """What an observer can read. `updates` is the number of updates of the whole run."""

    model: Any
    optimizer: Any
    objective: Objective
    seed: int
    updates: int
    log_every: int
    """Log a point every `log_every` updates."""
    ranks: Ranks
    """The processes of the run."""


class Observer:
    """Base class of observers; a subclass overrides the methods it needs.

    Metrics are returned by their full names (`fusion/moved`). With several processes, every observer runs in each
    process and sees the same data; the metrics of rank 0 are kept.
    """

    name: str
    """The observer's name: its prefix in the checkpoint and in error messages."""
    unclipped = False
    """Whether `before_update` needs unscaled gradients from before clipping, which not every Trainer can show."""

    def begin(self, context: Context) -> None:
        """Called once, with the weights from before the first update; also when a run is resumed."""

    def places(self, step: int | None) -> Collection[Place]:
        """Return the places whose points are needed at update `step` (from 1), or at every evaluation (None)."""
        return ()

    def before_update(self, step: int) -> Mapping[str, float]:
        """Called with the gradients of update `step`: reduced over processes and not clipped."""
        return {}

    def after_update(self, step: int, points: Mapping[Place, Tensor]) -> Mapping[str, float]:
        """Called after update `step`; `points` `[n, d]` of the whole batch come from the update's own forward pass."""
        return {}

    def evaluated(self, scored: Scored, epoch: int | None) -> Mapping[str, float]:
        """Called after each evaluation: of `validation`, or of `test` at the end.

        `epoch` is the epoch just finished, 0 before training, None within an epoch.
        """
        return {}

    def finish(self, folder: Path) -> None:
        """Write the observer's files into the run's output; called once, at the end, in the process of rank 0."""

    def state(self) -> dict[str, Tensor]:
        """Return the state that a resumed run needs."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state that `state` returned."""


class FusionMoved(Observer):
    """Log `fusion/moved` after each epoch (see `models.build.fusion_distance`), if the fusion has parameters."""

    name = "fusion_moved"

    def begin(self, context: Context) -> None:
        self.model = context.model
        self.start = {name: value.detach().clone() for name, value in build.fusion_parameters(context.model).items()}

    def evaluated(self, scored: Scored, epoch: int | None) -> dict[str, float]:
        if not epoch or scored.split != "validation":
            return {}
        moved = build.fusion_distance(self.model, self.start)
        return {} if moved is None else {"fusion/moved": moved}


class Observers(list[Observer]):
    """All observers of a run, called in order. A metric is of one observer and of one of its calls."""

    def begin(self, context: Context) -> None:
        self._owners = dict[str, tuple[str, str]]()
        for one in self:
            one.begin(context)

    def places(self, step: int | None) -> list[Place]:
        return list(dict.fromkeys(place for one in self for place in one.places(step)))

    def before_update(self, step: int) -> dict[str, float]:
        return self._joined("before_update", (one.before_update(step) for one in self))

    def after_update(self, step: int, points: Mapping[Place, Tensor]) -> dict[str, float]:
        return self._joined("after_update", (one.after_update(step, points) for one in self))

    def evaluated(self, scored: Scored, epoch: int | None) -> dict[str, float]:
        return self._joined("evaluated", (one.evaluated(scored, epoch) for one in self))

    def _joined(self, call: str, found: Iterable[Mapping[str, float]]) -> dict[str, float]:
        """Return all metrics of a call. Raises `RunError` for a name that another observer or call has."""
        every: dict[str, float] = {}
        for one, metrics in zip(self, found, strict=True):
            for name in metrics:
                owner, of = self._owners.setdefault(name, (one.name, call))
                if (owner, of) != (one.name, call):
                    who = f"another observer does ({owner!r})" if owner != one.name else f"{of} does"
                    raise RunError(f"observer {one.name!r}: {call} returns {name!r}, as {who}; rename it")
            every |= metrics
        return every

    def finish(self, folder: Path) -> None:
        for one in self:
            one.finish(folder)

    def state(self) -> dict[str, Tensor]:
        return {f"{one.name}/{name}": value for one in self for name, value in one.state().items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        for one in self:
            if own := below(f"{one.name}/", state):
                one.restore(own)


def apart(run: Mapping[str, float], seen: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics of a run and of its observers. Raises `RunError` for a name of both."""
    if twice := sorted({*run} & {*seen}):
        raise RunError(f"an observer returns {twice[0]!r}, which is a metric of the run; rename it")
    return {**run, **seen}


def prefixed(prefix: str, values: Mapping[str, Value]) -> dict[str, Value]:
    """Return values with a prefix before their names."""
    return {prefix + name: value for name, value in values.items()}


def below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
