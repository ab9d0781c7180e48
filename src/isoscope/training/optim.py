"""AdamW's parameter groups, the learning rate as a pure function of the step, and the number of updates."""

import math
from collections.abc import Callable, Collection
from typing import Any, Literal

import torch

from isoscope.base.errors import InputError, RunError
from isoscope.objectives import Indices, Objective


def parameter_groups(model: torch.nn.Module, fusion: Collection[str], settings: Any) -> list[dict[str, object]]:
    """Return AdamW's parameter groups: the fusion's parameters have their own peak rate; only matrices decay.

    `fusion` holds the names of the fusion's parameters; `settings`: the section `training`, as attributes. Each group
    stores its peak rate as `peak`.
    """
    groups: dict[tuple[float, float], list[torch.nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        own = name in fusion
        peak = settings.fusion_lr if own and settings.fusion_lr is not None else settings.learning_rate
        decay = settings.weight_decay if parameter.ndim >= 2 and not own else 0.0
        groups.setdefault((peak, decay), []).append(parameter)
    return [
        {"params": parameters, "peak": peak, "lr": peak, "weight_decay": decay}
        for (peak, decay), parameters in groups.items()
    ]


def schedule_factor(kind: str, step: int, *, total: int, warmup: float) -> float:
    """Return the learning rate of update `step` (from 0) as a share of its peak.

    Linear warmup over the first `floor(warmup · total)` updates, then linear or cosine decay to 0.
    """
    rising = math.floor(warmup * total)
    if step < rising:
        return (step + 1) / rising
    left = (total - step) / max(1, total - rising)
    return left if kind == "linear" else 0.5 * (1.0 + math.cos(math.pi * (1.0 - left)))


Kind = Literal["updates", "tokens", "predictions"]


def epoch_plan(objective: Objective, epoch: int, count: int) -> list[Indices]:
    """Return the rows of the batches of an epoch. Raises `RunError` if they are not `count`, as many as in epoch 1."""
    plan = objective.plan("train", epoch)
    if len(plan) != count:
        raise RunError(
            f"objective: plans {len(plan)} batches in epoch {epoch}, but {count} in epoch 1; a run needs equally many "
            "in each, so correct its plan()"
        )
    return plan


def updates_within(kind: Kind, number: int, objective: Objective, *, epochs: int) -> int:
    """Return the number of updates that reach a budget of `number` updates, tokens or predictions.

    A function of the objective's plans alone, so a resumed run has the same length. Raises `InputError` if the epochs
    end before the budget is spent.
    """
    spent, step = 0.0, 0
    if not number:
        return 0
    cost: dict[Kind, Callable[[Indices, int], float]] = {
        "updates": lambda rows, epoch: 1.0,
        "tokens": lambda rows, epoch: objective.tokens("train", rows),
        "predictions": lambda rows, epoch: objective.weight("train", rows, epoch),
    }
    for epoch in range(1, epochs + 1):
        for rows in objective.plan("train", epoch):
            step += 1
            spent += cost[kind](rows, epoch)
            if spent >= number:
                return step
    raise InputError(
        f"training.budget.number: {number:,} {kind}, but the {epochs} epochs end after {spent:,.0f}; set more epochs"
    )
