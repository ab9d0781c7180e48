"""Apply a penalty in a training run: its weight over the updates, the points it takes, the gradient it returns."""

from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from isoscope.base.errors import InputError, brief
from isoscope.base.registry import PENALTIES
from isoscope.objectives import Place
from isoscope.training.determinism import seed_of

Fields = list[tuple[str, Any]]

_DRAW = 0x9E4A
_SHARED = {"kind", "weight", "warmup", "points"}
_TAKEN = ("penalty", "penalty_weight", "penalty_gradient_norm", "loss", "gradient_norm", "learning_rate")
"""Metrics of a step; a plugin's penalty must not log metrics with these names."""


class PenaltyResult(NamedTuple):
    """The gradient of weight × penalty by each point `[n, d]` (None if the weight is 0), and metrics by name.

    Metrics stay tensors where the penalty computes them, so that nothing waits for a GPU.
    """

    gradient: Tensor | None
    metrics: dict[str, Any]


class WeightedPenalty:
    """A penalty with its weight, evaluated on the points of an effective batch.

    Random choices (which points, which bars, which labels) are a function of (seed, update).
    """

    def __init__(self, settings: Any, *, classes: int, seed: int) -> None:
        self.weight, self.warmup, self.points = settings.weight, settings.warmup, settings.points
        self.seed, self.classes = seed, classes
        self.place = Place(settings.points.layer, settings.points.vectors)
        entry, own = (
            PENALTIES[settings.kind],
            {name: one for name, one in vars(settings).items() if name not in _SHARED},
        )
        self.plugin = None if entry.built_in else entry
        self.clouds, self.reference = (own.get(name) if entry.built_in else None for name in ("clouds", "reference"))
        self.module = entry.make(own, classes=classes)
        if not callable(self.module):
            raise InputError(
                f"{entry.title}: returns {brief(self.module)}; expected a callable that takes points and labels"
            )

    def look(self, points: Tensor, labels: Tensor, *, step: int, total: int) -> PenaltyResult:
        """Evaluate the penalty on the effective batch's `points` `[n, d]`, detached, at update `step`."""
        rising = self.warmup * total
        weight = self.weight * min(1.0, step / rising) if rising > 0 else self.weight
        generator = torch.Generator().manual_seed(seed_of(self.seed, _DRAW, step))
        chosen = torch.arange(len(points), device=points.device)
        if self.points.most is not None and len(points) > self.points.most:
            drawn = torch.randperm(len(points), generator=generator)[: self.points.most]
            chosen = drawn.sort().values.to(points.device)
        if self.clouds == "shuffled":
            labels = labels[torch.randperm(len(labels), generator=generator).to(labels.device)]
        leaf = points.detach()[chosen].requires_grad_()
        if isinstance(self.module, nn.Module):
            self.module.to(points.device)  # also what was restored
        given: dict[str, Any] = {} if self.clouds is None else {"generator": generator}
        terms = self.module(leaf, labels[chosen], **given)
        fields = terms._asdict() if hasattr(terms, "_asdict") else {"penalty": terms}
        (_, penalty), *others = fields.items()
        if self.plugin is not None:
            every = len(labels[chosen].unique()) == self.classes  # with fewer classes a plugin may return a constant
            for fault in _faults(penalty, others, classes=self.classes, first=step == 0, every=every):
                raise InputError(f"{self.plugin.title}: {fault}")
        metrics = {"penalty": penalty.detach(), "penalty_weight": weight} | _metrics(others)
        if weight == 0:
            return PenaltyResult(None, metrics)
        found = torch.zeros_like(leaf)
        if penalty.requires_grad:  # a plugin may return a constant, e.g. for a batch of one class
            (found,) = torch.autograd.grad(weight * penalty, leaf, materialize_grads=True)
        gradient = torch.zeros_like(points).index_copy(0, chosen, found)
        return PenaltyResult(gradient, metrics | {"penalty_gradient_norm": gradient.norm()})

    def refer_to(self, points: Tensor) -> None:
        """Set the buffer `reference` to the covariance of these training points `[n, d]`."""
        self.module.reference = torch.cov(points.double().T)

    def state(self) -> dict[str, Tensor]:
        """Return the state that a resumed run needs: what the penalty's module has in buffers and parameters."""
        if not isinstance(self.module, nn.Module):
            return {}
        module = self.module  # a tensor under two names has both
        held = chain(module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False))
        return {name: value.detach().clone().contiguous() for name, value in held}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Restore the state that `state` returned: in place, since a module may have views of its buffers.

        A buffer may have another size than at the start, may have been None there, or be registered since.
        """
        for name, value in state.items():
            where, _, own = name.rpartition(".")
            owner = self.module.get_submodule(where)
            held = getattr(owner, own, None)
            if isinstance(held, UninitializedParameter | UninitializedBuffer):
                held.materialize(value.shape)
            if held is not None and (held.shape, held.dtype) == (value.shape, value.dtype):
                held.data.copy_(value)
            elif hasattr(owner, own):
                setattr(owner, own, nn.Parameter(value) if isinstance(held, nn.Parameter) else value)
            else:
                owner.register_buffer(own, value)


def penalised(settings: Any, *, classes: int, seed: int) -> WeightedPenalty | None:
    """Return the penalty of the section `penalty`, as attributes; None if the section asks for none."""
    return None if settings.kind == "none" else WeightedPenalty(settings, classes=classes, seed=seed)


def _faults(penalty: Any, others: Fields, *, classes: int, first: bool, every: bool) -> Iterator[str]:
    """Yield what is wrong with a plugin's result, which should be a scalar and metrics.

    The `first` batch's penalty must be finite. It must depend on the points if the batch has `every` class.
    """
    if not isinstance(penalty, Tensor) or penalty.numel() != 1 or not penalty.is_floating_point():
        yield f"returns {_shown(penalty)}; expected a scalar tensor, such as a mean or a sum, or a named tuple"
    for name, value in others:
        if name in _TAKEN:
            yield f"{name!r} is the name of another metric; rename the field"
        try:
            shape = tuple(torch.as_tensor(value).shape)
        except (TypeError, ValueError, RuntimeError):
            shape = None
        if shape not in ((), (classes,)):
            yield f"{name} is {_shown(value)}; expected a number, or one number per class"
    if first and not bool(penalty.isfinite()):
        yield f"returns {float(penalty.detach())} for the first batch; expected a finite number"
    if first and every and not penalty.requires_grad:
        yield "does not depend on the points; compute it from them, without detach or item"


def _shown(value: Any) -> str:
    tensor = isinstance(value, Tensor)
    return f"a tensor of shape {list(value.shape)} and type {value.dtype}" if tensor else brief(value)


def _metrics(others: Fields) -> dict[str, Tensor]:
    """Return a penalty's other fields as metrics: a number by its name, a number per class as `name/class_0` …."""
    numbers = [(name, torch.as_tensor(value).detach().double()) for name, value in others]
    return {
        f"{name}/class_{index}" if values.dim() else name: value
        for name, values in numbers
        for index, value in enumerate(values.flatten())
    }
