"""The integrand of a set's allocation along a line between two sets of weights."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoscope.objectives import Numbers
from isoscope.training.allocation_sets import PartedSet
from isoscope.training.packed import Packed
from isoscope.training.ranks import Ranks


class SetPath:
    """Gradients of a set's parts along lines that follow each other: gradients at an end begin the next line.

    `losses` are the parts' summed losses `[F]` at both ends of the current line, `before` and `after` the set's mean
    losses there, in nats. `gap` is how far the allocations of all lines so far are from the change of the loss.
    """

    def __init__(self, parted: PartedSet, packed: Packed, model: Any, ranks: Ranks) -> None:
        self.set, self.packed, self.model, self.ranks = parted, packed, model, ranks
        self.parameters = [one.parameter for one in packed.members]
        self.losses: dict[float, Numbers] = {}
        self.gap = 0.0
        self._kept: dict[int, Tensor] = {}

    def begin(self, start: Tensor, end: Tensor) -> None:
        """Begin a line; `start` must be the end of the line before, if there is one."""
        self.start, self.end = start, end
        self.losses = {0.0: self.losses[1.0]} if self.losses else {}

    @property
    def before(self) -> float:
        return self.set.mean(self.losses[0.0])

    @property
    def after(self) -> float:
        return self.set.mean(self.losses[1.0])

    def at(self, node: float) -> tuple[Numbers, Tensor]:
        """Return gradient · (end − start) by part and group `[F, G]`, and the gradient `[P]` of this process's parts.

        Both are of the set's mean loss: its parts add up to it. Sets the weights to `start + node · (end − start)`,
        except at the start if its gradients are kept.
        """
        total = float(self.set.weights.sum())
        kept = node in self.losses
        if not kept:
            self.packed.write(self._weights(node))
        losses = np.zeros(len(self.set.weights))
        sums = np.zeros((len(losses), len(self.packed.groups)))
        whole = torch.zeros_like(self.start)
        for part in self.set.own:
            if kept:
                gradient = self._kept[part]
            else:
                losses[part], found = self.set.gradient(part, self.model, self.parameters)
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

    def _weights(self, node: float) -> Tensor:
        """Return the weights at a node; at the ends, with the same bits."""
        if node in (0.0, 1.0):
            return self.end if node else self.start
        return torch.lerp(self.start, self.end, node)
