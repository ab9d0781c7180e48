"""The length of a run in updates: whole epochs, or until a budget is spent."""

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
    for epoch in range(1, epochs + 1):
        for rows in objective.plan("train", epoch):
            step += 1
            spent += _cost(kind, objective, rows, epoch)
            if spent >= number:
                return step
    raise InputError(
        f"training.budget.number: {number:,} {kind}, but the {epochs} epochs end after {spent:,.0f}; set more epochs"
    )


def _cost(kind: Kind, objective: Objective, rows: Indices, epoch: int) -> float:
    match kind:
        case "updates":
            return 1.0
        case "tokens":
            return float(objective.tokens("train", rows))
        case "predictions":
            return objective.weight("train", rows, epoch)
