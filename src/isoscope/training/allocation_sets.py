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
_MOST, _MOST_OF_FOLD = 32, 8
"""Rows of a backward pass; evaluation batches are larger, since they need no memory for it. A fold's rows have all
lengths: on a CPU the padding of a larger batch costs more than another pass."""
Line = tuple[Packed, Any, Ranks]
"""The weights that lie on a line, their model, and the processes that share the parts."""
Parts = Sequence[Iterable[Batch]]
"""The batches of each part of a set; read only by the process that evaluates the part."""


class PartedSet:
    """The loss of fixed sentences as a sum over parts of them, and its allocations along lines that follow each other.

    Gradients at the end of a line begin the next line. `weights` `[F]` are the parts' divisors (rows or tokens). Each
    process evaluates every n-th part whole, so a part's numbers have the same bits for any number of processes.

    Inside of a line, `inside` may be evaluated: as many parts of the same sentences, with less padding. The sum over
    the parts is then exact. By how much each part differs from its share of the sum lies on the straight line between
    the differences at both ends.

    `losses` are the parts' summed losses `[F]` at both ends of the current line. `gap` is how far the allocations of
    all lines so far are from the change of the loss.
    """

    def __init__(
        self, objective: Objective, weights: Numbers, parts: Parts, line: Line, *, inside: Parts | None = None
    ) -> None:
        self.objective, self.weights = objective, weights
        self.packed, self.model, self.ranks = line
        self.parameters = [one.parameter for one in self.packed.members]
        self.parts, self.inside = self._own(parts), None if inside is None else self._own(inside)
        self.losses: dict[float, Numbers] = {}
        self.gap = 0.0
        self._kept: tuple[list[Tensor], Tensor] = [], torch.empty(0)
        self._ends: dict[float, Numbers] = {}

    def _own(self, parts: Parts) -> list[list[dict[str, Tensor]]]:
        device = self.parameters[0].device
        own = range(len(self.weights))[self.ranks.rank :: self.ranks.size]
        return [[to_device(batch, device) for batch in parts[part]] for part in own]

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
        except at the start if its gradients are kept. Call it inside `undisturbed`, at both ends before a node inside.
        """
        known, ends, total = node in self.losses, node in (0.0, 1.0), float(self.weights.sum())
        own = slice(self.ranks.rank, None, self.ranks.size)
        every = np.zeros((len(self.weights), 1 + len(self.packed.groups)))
        gradients, whole = self._kept
        if not known:
            self.packed.write(torch.lerp(self.start, self.end, node))
            gradients, whole = [], torch.zeros_like(self.start)
            self._kept = (gradients, whole) if ends else self._kept  # without those of the end before
            parts = self.parts if ends or self.inside is None else self.inside
            for place, part in zip(range(len(every))[own], parts, strict=True):
                every[place, 0], gradient = self._gradient(part)
                whole += gradient
                if ends:
                    gradients.append(gradient)
                else:
                    every[place, 1:] = self.packed.allocated([gradient], self.start, self.end)
            whole /= total
        if ends:
            every[own, 1:] = self.packed.allocated(gradients, self.start, self.end)
        losses, sums = np.split(self.ranks.sum(every), [1], axis=1)
        if ends:
            self._ends[node] = sums
            self.losses.setdefault(node, losses[:, 0])
        elif self.inside is not None:
            straight = (1 - node) * self._ends[0.0] + node * self._ends[1.0]
            sums = straight + self.weights[:, None] / total * (sums - straight).sum(0)
        return sums / total, whole

    def _gradient(self, part: Iterable[dict[str, Tensor]]) -> tuple[float, Tensor]:
        """Return a part's summed loss and its gradient `[P]`; the parameters' own `.grad` stays as it is."""
        losses: list[Tensor] = []
        gradient: Tensor | None = None
        for inputs in part:
            summed = self.objective.forward(self.model, inputs).loss
            found = torch.autograd.grad(summed, self.parameters, allow_unused=True, materialize_grads=True)
            losses.append(summed.detach())
            packed = self.packed.pack(found)
            gradient = packed if gradient is None else gradient.add_(packed)
        return sum(map(float, losses)), torch.zeros_like(self.start) if gradient is None else gradient


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
    most = _MOST_OF_FOLD if line[0].members[0].parameter.device.type == "cpu" else _MOST

    def weight(part: Indices) -> float:
        """Return the weight of a part in the batches that its losses are of: random masks depend on the batch."""
        return sum(objective.weight(split, few, None) for few in micro_batches(objective, split, part, most=most))

    weights = np.array([*map(weight, parts)])
    if not (weights > 0).all():
        raise InputError(f"training.allocation: a fold of {split} has nothing to predict; ask for fewer folds")

    def batches(part: Indices, most: int = _MOST) -> Iterator[Batch]:
        return (objective.batch(split, few, None) for few in micro_batches(objective, split, part, most=most))

    of_folds = [batches(part, most) for part in parts]
    inside = None
    if getattr(objective, "same_in_any_batch", True):
        by_length = np.array_split(np.concatenate(objective.plan(split, None, rows)), folds)
        inside = [*map(batches, by_length)]
    return PartedSet(objective, weights, of_folds, line, inside=inside)


def fixed_rows(objective: Objective, split: str, sentences: int) -> Indices:
    """Return the same `sentences` rows of a split in every run, ascending; all of them if it has fewer."""
    return drawn_rows(objective.size(split), sentences, _KEY)


def micro_batches(objective: Objective, split: str, rows: Indices, *, most: int = _MOST) -> Iterator[Indices]:
    """Yield rows in evaluation batches of `most` rows, which are small enough for a backward pass."""
    for planned in objective.plan(split, None, rows):
        yield from np.array_split(planned, -(-len(planned) // most))


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
