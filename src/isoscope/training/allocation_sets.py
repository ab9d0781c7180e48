"""Fixed sentences in parts: losses, gradients, and allocations along a line, without a trace in the training."""

from collections.abc import Callable, Iterable, Iterator, Sequence
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
Line = tuple[Packed, Any, Ranks]
"""The weights that lie on a line, their model, and the processes that share the parts."""
Batches = Callable[[int], Iterable[Batch]]
"""Part → its batches, asked only of the parts that this process evaluates."""


class PartedSet:
    """The loss of fixed sentences as a sum over parts of them, and its allocations along lines that follow each other.

    Gradients at the end of a line begin the next line. `weights` `[F]` are the parts' divisors (rows or tokens). Each
    process evaluates every n-th part whole, so a part's numbers have the same bits for any number of processes.

    `losses` are the parts' summed losses `[F]` at both ends of the current line. `gap` is how far the allocations of
    all lines so far are from the change of the loss.
    """

    def __init__(self, objective: Objective, weights: Numbers, batches: Batches, line: Line) -> None:
        self.objective, self.weights = objective, weights
        self.packed, self.model, self.ranks = line
        self.parameters = [one.parameter for one in self.packed.members]
        device = self.parameters[0].device
        own = range(len(weights))[self.ranks.rank :: self.ranks.size]
        self.inputs = {part: [to_device(batch, device) for batch in batches(part)] for part in own}
        self.losses: dict[float, Numbers] = {}
        self.gap = 0.0
        self._kept: dict[int, Tensor] = {}

    def begin(self, start: Tensor, end: Tensor) -> None:
        """Begin a line; `start` must be the end of the line before, if there is one."""
        self.start, self.end = start, end
        self.losses = {0.0: self.losses[1.0]} if self.losses else {}

    @property
    def means(self) -> tuple[float, float]:
        """The set's mean losses at the ends of the line, in nats."""
        total = self.weights.sum()
        return float(self.losses[0.0].sum() / total), float(self.losses[1.0].sum() / total)

    def change(self) -> float:
        """Return the change of the set's mean loss over the line."""
        before, after = self.means
        return after - before

    def at(self, node: float) -> tuple[Numbers, Tensor]:
        """Return gradient · (end − start) by part and group `[F, G]`, and the gradient `[P]` of this process's parts.

        Both are of the set's mean loss: its parts add up to it. Sets the weights to `start + node · (end − start)`,
        except at the start if its gradients are kept. Call it inside `undisturbed`.
        """
        known, total = node in self.losses, float(self.weights.sum())
        if not known:
            self.packed.write(torch.lerp(self.start, self.end, node))
        losses = np.zeros((len(self.weights), 1))
        sums = np.zeros((len(losses), len(self.packed.groups)))
        whole = torch.zeros_like(self.start)
        for part in self.inputs:
            losses[part], gradient = (0.0, self._kept[part]) if known else self._gradient(part)
            if node in (0.0, 1.0):
                self._kept[part] = gradient
            sums[part] = self.packed.allocated(gradient, self.start, self.end)
            whole += gradient
        losses, sums = np.split(self.ranks.sum(np.hstack([losses, sums])), [1], axis=1)
        if node in (0.0, 1.0) and not known:
            self.losses[node] = losses[:, 0]
        return sums / total, whole.div_(total)

    def _gradient(self, part: int) -> tuple[float, Tensor]:
        """Return a part's summed loss and its gradient `[P]`; the parameters' own `.grad` stays as it is."""
        loss, gradient = 0.0, torch.zeros_like(self.start)
        for inputs in self.inputs[part]:
            summed = self.objective.forward(self.model, inputs).loss
            found = torch.autograd.grad(summed, self.parameters, allow_unused=True, materialize_grads=True)
            loss += float(summed.detach())
            gradient += self.packed.pack(found)
        return loss, gradient


def folded_set(objective: Objective, split: str, line: Line, *, sentences: int, folds: int) -> PartedSet:
    """Return the same `sentences` rows of a split in every run, in `folds` random parts of nearly equal size.

    Inputs are those of `objective.batch(split, rows, None)`: fixed masks. Raises `InputError` if the split has fewer
    rows than folds.
    """
    rows = fixed_rows(objective, split, sentences)
    if len(rows) < folds:
        raise InputError(
            f"training.allocation.folds: {folds}, but {split} has {len(rows)} rows; ask for at most as many folds"
        )
    order = rows[shuffled(len(rows), _KEY, 1)]
    parts = [np.sort(order[fold::folds]) for fold in range(folds)]
    weights = np.array([objective.weight(split, part, None) for part in parts])
    if not (weights > 0).all():
        raise InputError(f"training.allocation: a fold of {split} has nothing to predict; ask for fewer folds")

    def batches(fold: int) -> Iterator[Batch]:
        return (objective.batch(split, part, None) for part in micro_batches(objective, split, parts[fold]))

    return PartedSet(objective, weights, batches, line)


def fixed_rows(objective: Objective, split: str, sentences: int) -> Indices:
    """Return the same `sentences` rows of a split in every run, ascending; all of them if it has fewer."""
    return drawn_rows(objective.size(split), sentences, _KEY)


def micro_batches(objective: Objective, split: str, rows: Indices) -> Iterator[Indices]:
    """Yield rows in evaluation batches that are small enough for a backward pass."""
    for planned in objective.plan(split, None, rows):
        yield from np.array_split(planned, -(-len(planned) // _MOST))


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
