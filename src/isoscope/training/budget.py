"""The length of a run in updates: whole epochs, or until a budget is spent."""

from collections.abc import Callable
from typing import Literal

from isoscope.base.errors import InputError
from isoscope.objectives import Indices, Objective

Kind = Literal["updates", "tokens", "predictions"]


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
