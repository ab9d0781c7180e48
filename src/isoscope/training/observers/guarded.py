"""Hold observers of plugins to their promise: they read a run and change nothing in it.

What an observer draws from a random generator is given back. Anything else that it changes ends the run with its name:
the numbers would no longer be those of the run's digest.
"""

import copy
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from numbers import Real
from pathlib import Path
from typing import Any

from torch import Tensor

from isoscope.base.errors import RunError, brief
from isoscope.objectives import Place, Scored
from isoscope.training.determinism import same_draws
from isoscope.training.observers import Context, Observer
from isoscope.training.observers.traces import Traces, files

_VECTORS = ("first", "mean", "tokens")


def guarded(observers: Collection[Observer]) -> list[Observer]:
    """Return the observers; those that are not isoscope's own are guarded."""
    return [one if type(one).__module__.startswith("isoscope.") else Guarded(one) for one in observers]


class Guarded(Observer):
    """An observer whose calls leave the run as it was, or raise `RunError`; it gets copies of points and scores."""

    def __init__(self, inner: Observer) -> None:
        self.inner, self.name, self.unclipped = inner, inner.name, inner.unclipped
        self._where = "begin"

    def begin(self, context: Context) -> None:
        self._traces = Traces(context)
        self._layers = 1 + context.model.config.num_hidden_layers
        self._taken = {"step/loss", "step/gradient_norm", "step/learning_rate", "training/best_epoch"} | {
            f"{split}/{name}"
            for split in ("train", "validation", "test")
            for name in (*(one.name for one in context.objective.metrics), "gradient_norm")
        }
        with self._unchanged("begin"):
            self.inner.begin(context)

    def places(self, step: int | None) -> list[Place]:
        if type(self.inner).places is Observer.places:
            return []
        with self._unchanged("places", light=True):
            found = self.inner.places(step)
        if not isinstance(found, Collection) or not all(map(self._is_place, found)):
            raise self._error(
                f"returns {brief(found)}, expected a list of Place(layer, vectors) of the {self._layers} layers"
            )
        return [Place(*one) for one in found]

    def before_update(self, step: int) -> dict[str, float]:
        return self._metrics("before_update", step, step)

    def after_update(self, step: int, points: Mapping[Place, Tensor]) -> dict[str, float]:
        own = {place: one.detach().clone() for place, one in points.items()}
        return self._metrics("after_update", step, step, own)

    def evaluated(self, scored: Scored, epoch: int | None) -> dict[str, float]:
        return self._metrics("evaluated", scored.split, copy.deepcopy(scored), epoch)

    def finish(self, folder: Path) -> None:
        before = files(folder)
        with self._unchanged("finish"), self._same_data():
            self.inner.finish(folder)
        if changed := sorted(before.items() - files(folder).items()):
            raise self._error(f"changes {changed[0][0]}, a file of the run")

    def state(self) -> dict[str, Tensor]:
        with self._unchanged("state"):
            found = self.inner.state()
        if not isinstance(found, Mapping) or not all(
            isinstance(name, str) and isinstance(one, Tensor) for name, one in found.items()
        ):
            raise self._error(f"returns {brief(found)}, expected names and tensors")
        return {name: one.detach().clone().contiguous() for name, one in found.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        with self._unchanged("restore"):
            self.inner.restore(state)

    @contextmanager
    def _unchanged(self, call: str, *, light: bool = False) -> Iterator[None]:
        """Give back what the call draws from generators; raise `RunError` if it changes the run.

        `light`: only the generators and torch's settings, for a call that is made at every update.
        """
        self._where = call
        before = self._traces.light() if light else self._traces.all(copied=True)
        with same_draws():
            yield
        now = self._traces.light() if light else self._traces.all()
        if changed := [what for what, value in before.items() if value != now[what]]:
            raise self._error(f"changes the run: {', '.join(changed)}")

    @contextmanager
    def _same_data(self) -> Iterator[None]:
        """Raise `RunError` if the objective's data are others than at the beginning."""
        yield
        if self._traces.data_changed():
            raise self._error("changes the run: the objective's data")

    def _metrics(self, call: str, at: object, *given: Any) -> dict[str, float]:
        """Return the metrics of a call with copies of what it reads; none if the observer has no such method."""
        if getattr(type(self.inner), call) is getattr(Observer, call):
            return {}
        with self._unchanged(f"{call}({at})"), self._same_data() if call == "evaluated" else nullcontext():
            found = getattr(self.inner, call)(*given)
            if not isinstance(found, Mapping):
                raise self._error(f"returns {brief(found)}, expected metrics: names and numbers")
            for name, value in found.items():
                if not isinstance(name, str) or not isinstance(value, Real):
                    raise self._error(f"returns {brief(name)}: {brief(value)}, expected a name and a number")
                if name in self._taken or name.startswith("step/penalty"):
                    raise self._error(f"returns {name!r}, which is a metric of the run; give it another name")
        return {name: float(value) for name, value in found.items()}

    def _is_place(self, one: Any) -> bool:
        if not isinstance(one, tuple) or len(one) != 2 or not isinstance(one[0], int) or one[1] not in _VECTORS:
            return False
        return -self._layers <= one[0] < self._layers

    def _error(self, what: str) -> RunError:
        return RunError(f"observer {self.name!r}: {self._where} {what}; an observer reads a run, so correct its code")
