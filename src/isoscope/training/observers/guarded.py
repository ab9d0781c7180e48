"""Hold observers of plugins to their promise: they read a run and change nothing in it.

What an observer draws from a random generator is given back. Anything else that it changes ends the run with its name:
the numbers would no longer be those of the run's digest. Traces of the run's state, cheap to take, show the changes.
"""

import copy
import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from operator import is_
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules import module as every

from isoscope.base.errors import RunError, brief
from isoscope.objectives import Place, Scored
from isoscope.training.determinism import same_draws
from isoscope.training.observers import Context, Observer

_VECTORS, _TEST = ("first", "mean", "tokens"), "test/"


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
        with self._unchanged("places"):
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
        """Return the metrics; those of the test split begin with `test/`, so that none is one of validation."""
        found = self._metrics("evaluated", scored.split, copy.deepcopy(scored), epoch)
        if scored.split != "test":
            if of_test := [name for name in found if name.startswith(_TEST)]:
                raise self._error(f"returns {of_test[0]!r}, a name of the test split; rename it")
            return found
        return {name if name.startswith(_TEST) else _TEST + name: value for name, value in found.items()}

    def finish(self, folder: Path) -> None:
        before = files(folder)
        with self._unchanged("finish", data=True):
            self.inner.finish(folder)
        if changed := sorted(before - files(folder)):
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
    def _unchanged(self, call: str, *, data: bool = False) -> Iterator[None]:
        """Give back what the call draws from generators; raise `RunError` if it changes the run, or its `data`."""
        self._where = call
        before = self._traces.all(copied=True)
        with same_draws():
            yield
        now = self._traces.all()
        changed = [what for what, trace in before.items() if not trace.same(now[what])]
        if data and self._traces.data_changed():
            changed.append("the objective's data")
        if changed:
            raise self._error(f"changes the run: {', '.join(changed)}")

    def _metrics(self, call: str, at: object, *given: Any) -> dict[str, float]:
        """Return the metrics of a call with copies of what it reads; none if the observer has no such method."""
        if getattr(type(self.inner), call) is getattr(Observer, call):
            return {}
        with self._unchanged(f"{call}({at})", data=call == "evaluated"):
            found = getattr(self.inner, call)(*given)
            if not isinstance(found, Mapping):
                raise self._error(f"returns {brief(found)}, expected metrics: names and numbers")
            for name, value in found.items():
                if not isinstance(name, str) or not isinstance(value, Real):
                    raise self._error(f"returns {brief(name)}: {brief(value)}, expected a name and a number")
                if name in self._taken or (call == "evaluated" and _TEST + name in self._taken):
                    raise self._error(f"returns {name!r}, which is a metric of the run; give it another name")
        return {name: float(value) for name, value in found.items()}

    def _is_place(self, one: Any) -> bool:
        if not isinstance(one, tuple) or len(one) != 2 or one[1] not in _VECTORS:
            return False
        return isinstance(one[0], int) and -self._layers <= one[0] < self._layers

    def _error(self, what: str) -> RunError:
        return RunError(f"observer {self.name!r}: {self._where} {what}; an observer reads a run, so correct its code")


class Trace(NamedTuple):
    """A part of a run at one moment.

    `objects` are compared by identity, and held, so that no other object takes their place; `tensors` bit by bit, so
    that NaN equals NaN; `values` by `==`.
    """

    objects: Sequence[Any] = ()
    tensors: Sequence[Tensor] = ()
    values: Any = None

    def same(self, other: "Trace") -> bool:
        if len(self.objects) != len(other.objects) or not all(map(is_, self.objects, other.objects)):
            return False
        return self.values == other.values and all(map(_equal, self.tensors, other.tensors))


class Traces:
    """The traces of a run: its model, optimiser and data, and torch's settings, each by a name for messages."""

    def __init__(self, context: Context) -> None:
        self.model, self.optimizer, self.objective = context.model, context.optimizer, context.objective
        self._arrays = _arrays(self.objective)
        self._data = _digest(self._arrays)

    def all(self, *, copied: bool = False) -> dict[str, Trace]:
        """Return every trace but that of the data; `copied`: weights and gradients as they are now."""
        parameters = [*self.model.parameters()]
        # Identity, version and norm of the moments: no copy, since they are twice as many as the weights.
        moments = [one for each in self.optimizer.state.values() for one in each.values() if isinstance(one, Tensor)]
        norms = torch._foreach_norm(moments) if moments else ()
        groups = [{**group, "params": [*map(id, group["params"])]} for group in self.optimizer.param_groups]
        return {
            "torch's settings": Trace(values=_settings()),
            "weights": _exactly([*parameters, *self.model.buffers()], copied),
            "gradients": _exactly([one.grad for one in parameters if one.grad is not None], copied),
            "requires_grad": Trace(values=[one.requires_grad for one in parameters]),
            "state of the optimiser": Trace(moments, norms, [one._version for one in moments]),
            "settings of the optimiser": Trace(values=groups),
            "the optimiser": Trace([*_held(self.optimizer)]),
            "train or eval mode": Trace(values=[one.training for one in self.model.modules()]),
            "the objective": Trace([*getattr(self.objective, "__dict__", {}).values()]),
            "modules or hooks": Trace([*_parts(self.model)]),
            "configuration": Trace(values=repr(vars(self.model.config))),
        }

    def data_changed(self) -> bool:
        """Return whether the objective holds other data than at the beginning."""
        return _digest(self._arrays) != self._data


def _exactly(tensors: list[Tensor], copied: bool) -> Trace:
    return Trace(tensors, [one.detach().clone() if copied else one.detach() for one in tensors])


def _equal(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(*(each.reshape(-1).view(torch.uint8) for each in (one, other)))


def files(folder: Path) -> set[tuple[str, int, int, int]]:
    """Return relative path, inode, size and time of change of each file below a folder."""
    found = ((path.relative_to(folder).as_posix(), path.stat()) for path in folder.rglob("*") if path.is_file())
    return {(name, stat.st_ino, stat.st_size, stat.st_mtime_ns) for name, stat in found}


def _parts(model: Any) -> Iterator[Any]:
    """Yield what the modules hold, but not their weights and their mode."""
    for module in model.modules():
        yield from (value for name, value in vars(module).items() if name != "training")
        for hooks in (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._modules):
            yield from hooks.values()
    for one in model.parameters():
        yield from (one._backward_hooks or {}).values()
    yield from (*every._global_forward_hooks.values(), *every._global_forward_pre_hooks.values())


def _held(optimizer: Any) -> Iterator[Any]:
    """Yield what an optimiser holds, with its hooks."""
    for held in (vars(optimizer), optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks):
        yield from held.values()


def _settings() -> tuple[Any, ...]:
    """Return the global settings of torch that can change numbers, and the working folder."""
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    return (
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        (cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32),
        torch.get_float32_matmul_precision(),
        (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        (torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")),
        (torch.backends.mkldnn.enabled, cuda.flash_sdp_enabled(), cuda.math_sdp_enabled()),
        float(torch.tensor(1e-40, device="cpu") * 1.0),  # 0 if tiny numbers are flushed
        os.getcwd(),  # noqa: PTH109
    )


def _arrays(one: Any) -> list[Any]:
    """Return all arrays and tensors that an object holds, in lists, mappings and objects at any depth."""
    seen: dict[int, Any] = {}
    todo = [one]
    while todo:
        value = todo.pop()
        if id(value) in seen or isinstance(value, str | int | float | type | torch.nn.Module):
            continue
        seen[id(value)] = value
        if isinstance(value, list | tuple):
            todo += value
        elif not isinstance(value, np.ndarray | Tensor):
            todo += (value if isinstance(value, Mapping) else getattr(value, "__dict__", {})).values()
    return [value for value in seen.values() if isinstance(value, np.ndarray | Tensor)]


def _digest(arrays: Iterable[Any]) -> str:
    """Return a hash over arrays and tensors."""
    digest = hashlib.sha256()
    for one in arrays:
        array = one.detach().cpu().numpy() if isinstance(one, Tensor) else one
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(repr(array.tolist()).encode() if array.dtype == object else np.ascontiguousarray(array).data)
    return digest.hexdigest()
