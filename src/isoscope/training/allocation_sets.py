"""Fixed sentences in parts: losses, gradients, and allocations along a line, without a trace in the training."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isoscope.base.errors import InputError
from isoscope.data.batches import drawn_rows, shuffled
from isoscope.objectives import Batch, Indices, Numbers, Objective
from isoscope.training.determinism import same_draws
from isoscope.training.evaluation import to_device
from isoscope.training.packed import Packed
from isoscope.training.ranks import Ranks

_KEY = 0xA110C
_MOST = 32
"""Rows of a backward pass: evaluation batches are larger, since they need no memory for it."""


class PartedSet:
    """The loss of fixed sentences as a sum over parts of them, and its allocations along lines that follow each other.

    Gradients at the end of a line begin the next line. `weights` `[F]` are the parts' divisors (rows or tokens). Each
    process evaluates every n-th part whole, so a part's numbers have the same bits for any number of processes.

    `losses` are the parts' summed losses `[F]` at both ends of the current line, `before` and `after` the set's mean
    losses there, in nats. `gap` is how far the allocations of all lines so far are from the change of the loss.
    """

    def __init__(self, objective: Objective, weights: Numbers, packed: Packed, model: Any, ranks: Ranks) -> None:
        self.objective, self.weights, self.packed = objective, weights, packed
        self.model, self.ranks = model, ranks
        self.parameters = [one.parameter for one in packed.members]
        self.own = range(len(weights))[ranks.rank :: ranks.size]
        self.inputs: dict[int, list[dict[str, Tensor]]] = {}
        self.losses: dict[float, Numbers] = {}
        self.gap = 0.0
        self._kept: dict[int, Tensor] = {}

    def take(self, part: int, batches: Iterable[Batch]) -> None:
        """Keep the batches of a part on the device of the weights."""
        self.inputs[part] = [to_device(batch, self.parameters[0].device) for batch in batches]

    def begin(self, start: Tensor, end: Tensor) -> None:
        """Begin a line; `start` must be the end of the line before, if there is one."""
        self.start, self.end = start, end
        self.losses = {0.0: self.losses[1.0]} if self.losses else {}

    @property
    def before(self) -> float:
        return self._mean(0.0)

    @property
    def after(self) -> float:
        return self._mean(1.0)

    def _mean(self, node: float) -> float:
        """Return the set's mean loss in nats at an end."""
        return float(self.losses[node].sum() / self.weights.sum())

    def at(self, node: float) -> tuple[Numbers, Tensor]:
        """Return gradient · (end − start) by part and group `[F, G]`, and the gradient `[P]` of this process's parts.

        Both are of the set's mean loss: its parts add up to it. Sets the weights to `start + node · (end − start)`,
        except at the start if its gradients are kept. Call it inside `undisturbed`.
        """
        total = float(self.weights.sum())
        kept = node in self.losses
        if not kept:
            self.packed.write(self._weights(node))
        losses = np.zeros(len(self.weights))
        sums = np.zeros((len(losses), len(self.packed.groups)))
        whole = torch.zeros_like(self.start)
        for part in self.own:
            if kept:
                gradient = self._kept[part]
            else:
                losses[part], found = self._gradient(part)
                gradient = self.packed.pack(found)
            if node in (0.0, 1.0):
                self._kept[part] = gradient
            sums[part] = self.packed.allocated(gradient, self.start, self.end)
            whole += gradient
        reduced = self.ranks.sum(np.concatenate([losses, sums.ravel()]))
        losses, sums = reduced[: len(losses)], reduced[len(losses) :].reshape(sums.shape)
        if node in (0.0, 1.0) and not kept:
            self.losses[node] = losses
        return sums / total, whole.div_(total)

    def _gradient(self, part: int) -> tuple[float, list[Tensor | None]]:
        """Return a part's summed loss and its gradient by each parameter, whose own `.grad` stays as it is."""
        loss = 0.0
        gradients: list[Tensor | None] = [None] * len(self.parameters)
        for inputs in self.inputs[part]:
            summed = self.objective.forward(self.model, inputs).loss
            found = torch.autograd.grad(summed, self.parameters, allow_unused=True)
            loss += float(summed.detach())
            gradients = [_added(one, other) for one, other in zip(gradients, found, strict=True)]
        return loss, gradients

    def _weights(self, node: float) -> Tensor:
        """Return the weights at a node; at the ends, with the same bits."""
        if node in (0.0, 1.0):
            return self.end if node else self.start
        return torch.lerp(self.start, self.end, node)


class AllocationSet(PartedSet):
    """The same `sentences` rows of a split in every run, in `folds` random parts whose sizes differ by at most a row.

    Inputs are those of `objective.batch(split, rows, None)`: fixed masks. `line`: weights, model and processes. Raises
    `InputError` if the split has fewer rows than folds.
    """

    def __init__(self, objective: Objective, split: str, *line: Any, sentences: int, folds: int) -> None:
        rows = fixed_rows(objective, split, sentences)
        if len(rows) < folds:
            raise InputError(
                f"training.allocation.folds: {folds}, but {split} has {len(rows)} rows; ask for at most as many folds"
            )
        order = rows[shuffled(len(rows), _KEY, 1)]
        self.parts = [np.sort(order[fold::folds]) for fold in range(folds)]
        super().__init__(objective, np.array([objective.weight(split, part, None) for part in self.parts]), *line)
        if not (self.weights > 0).all():
            raise InputError(f"training.allocation: a fold of {split} has nothing to predict; ask for fewer folds")
        for fold in self.own:
            parts = micro_batches(objective, split, self.parts[fold])
            self.take(fold, (objective.batch(split, part, None) for part in parts))


def fixed_rows(objective: Objective, split: str, sentences: int) -> Indices:
    """Return the same `sentences` rows of a split in every run, ascending; all of them if it has fewer."""
    return drawn_rows(objective.size(split), sentences, _KEY)


def micro_batches(objective: Objective, split: str, rows: Indices) -> Iterator[Indices]:
    """Yield rows in evaluation batches that are small enough for a backward pass."""
    for planned in objective.plan(split, None, rows):
        yield from np.array_split(planned, -(-len(planned) // _MOST))


def _added(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other


@contextmanager
def undisturbed(model: nn.Module, parameters: Sequence[Tensor]) -> Iterator[None]:
    """Evaluate without dropout and with gradients of all `parameters`; restore modes, flags and random generators.

    A parameter that is frozen now may move later on the same line, so it needs its gradient too.
    """
    modes = [(module, module.training) for module in model.modules()]
    flags = [(one, one.requires_grad) for one in parameters]
    model.eval()
    for one in parameters:
        one.requires_grad_()
    try:
        with same_draws(), torch.enable_grad():
            yield
    finally:
        for one, flag in flags:
            one.requires_grad_(flag)
        for module, mode in modes:
            module.training = mode
