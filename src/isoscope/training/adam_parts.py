"""Split an update of AdamW into its new gradient, its momentum from earlier updates, and its weight decay."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from isoscope.base.errors import InputError
from isoscope.models.components import Member

PARTS = ("gradient", "momentum", "decay")
Start = tuple[dict[str, Any], Tensor | None]
"""What an update of a parameter will use: its group's settings, and the first moment before it, if there is one."""


class AdamParts:
    """The parts of the next update, read from the optimiser's own moments.

    With m the first moment after the update, m' before it, v the second moment and t the number of updates, AdamW
    changes a weight by `−rate · m̂ / (√v̂ + ε) − rate · decay · θ`, `m̂ = m / (1 − β₁ᵗ)`, `v̂ = v / (1 − β₂ᵗ)`. The
    momentum part has `β₁ m'` in place of m, the gradient part `m − β₁ m' = (1 − β₁) g` (g after clipping). Source:
    Loshchilov and Hutter 2019 (https://arxiv.org/abs/1711.05101). Raises `InputError` for another optimiser.
    """

    def __init__(self, optimizer: Any, members: Sequence[Member]) -> None:
        self.optimizer, self.members = getattr(optimizer, "optimizer", optimizer), members  # Accelerate wraps it
        if not isinstance(self.optimizer, torch.optim.AdamW) or any(g["amsgrad"] for g in self.optimizer.param_groups):
            raise InputError(
                f"training.allocation.parts: the optimiser is {type(self.optimizer).__name__}; only torch's AdamW "
                "without amsgrad has these parts, so set parts to false"
            )
        self._starts: list[Start | None] = []

    def begin(self) -> None:
        """Remember the state before an update; call it when the gradients are there."""
        groups = {one: group for group in self.optimizer.param_groups for one in group["params"]}
        self._starts = [self._start(one.parameter, groups.get(one.parameter)) for one in self.members]

    def _start(self, parameter: Tensor, group: dict[str, Any] | None) -> Start | None:
        if group is None or parameter.grad is None:  # the optimiser leaves it as it is
            return None
        moment = self.optimizer.state[parameter].get("exp_avg") if parameter in self.optimizer.state else None
        return {**group, "lr": float(group["lr"])}, None if moment is None else moment.clone()

    def end(self, before: Sequence[Tensor]) -> dict[str, list[Tensor | None]]:
        """Return each part's change of the weights, by member; `before` are the weights before the update."""
        found: dict[str, list[Tensor | None]] = {name: [] for name in PARTS}
        for member, start, weights in zip(self.members, self._starts, before, strict=True):
            for name, change in zip(PARTS, self._changes(member.parameter, start, weights), strict=True):
                found[name].append(change)
        self._starts = []
        return found

    def _changes(
        self, parameter: Tensor, start: Start | None, weights: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        if start is None:
            return None, None, None
        (group, before), kept = start, self.optimizer.state[parameter]
        (first, second), updates = group["betas"], float(kept["step"])
        scale = (kept["exp_avg_sq"] / (1 - second**updates)).sqrt_().add_(group["eps"])
        scale = scale.reciprocal_().mul_(-group["lr"] / (1 - first**updates))
        moment = torch.zeros_like(weights) if before is None else first * before
        decay = weights * (-group["lr"] * float(group["weight_decay"]))
        return (kept["exp_avg"] - moment) * scale, moment * scale, decay
