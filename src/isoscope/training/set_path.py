"""The integrand of a set's allocation along a line between two sets of weights."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoscope.objectives import Numbers
from isoscope.training.allocation_sets import AllocationSet
from isoscope.training.packed import Packed
from isoscope.training.ranks import Ranks


class SetPath:
    """Gradients of a set's folds along lines that follow each other: gradients at an end begin the next line.

    `before` and `after` are the set's mean losses at the ends of the current line, in nats.
    """

    def __init__(self, allocated: AllocationSet, packed: Packed, model: Any, ranks: Ranks) -> None:
        self.set, self.packed, self.model, self.ranks = allocated, packed, model, ranks
        self.parameters = [one.parameter for one in packed.members]
        self.before = self.after = float("nan")
        self._kept: dict[int, Tensor] = {}
        self._losses: Numbers | None = None

    def begin(self, start: Tensor, end: Tensor) -> None:
        """Begin a line; `start` must be the end of the line before, if there is one."""
        self.start, self.end = start, end

    def at(self, node: float) -> tuple[Numbers, Tensor]:
        """Return gradient · (end − start) by fold and group `[F, G]`, and the gradient `[P]` of this process's folds.

        Both are of the set's mean loss: its folds add up to it. Sets the weights to `start + node · (end − start)`,
        except at the start if its gradients are kept.
        """
        total = float(self.set.weights.sum())
        kept = node == 0.0 and self._losses is not None
        if not kept:
            self.packed.write(self._weights(node))
        losses = np.zeros(self.set.folds)
        sums = np.zeros((self.set.folds, len(self.packed.groups)))
        whole = torch.zeros_like(self.start)
        for fold in self.set.own:
            if kept:
                gradient = self._kept[fold]
            else:
                losses[fold], found = self.set.gradient(fold, self.model, self.parameters)
                gradient = self.packed.pack(found)
            if node in (0.0, 1.0):
                self._kept[fold] = gradient
            sums[fold] = self.packed.allocated(gradient, self.start, self.end)
            whole += gradient
        reduced = self.ranks.sum(np.concatenate([losses, sums.ravel()]))
        losses, sums = reduced[: len(losses)], reduced[len(losses) :].reshape(sums.shape)
        self._note(node, self._losses if kept and self._losses is not None else losses)
        return sums / total, whole.div_(total)

    def _weights(self, node: float) -> Tensor:
        """Return the weights at a node; at the ends, with the same bits."""
        if node in (0.0, 1.0):
            return self.end if node else self.start
        return torch.lerp(self.start, self.end, node)

    def _note(self, node: float, losses: Numbers) -> None:
        if node == 0.0:
            self.before = self.set.mean(losses)
        if node == 1.0:
            self.after = self.set.mean(losses)
            self._losses = losses
