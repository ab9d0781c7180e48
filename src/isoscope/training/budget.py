"""The length of a run in updates: whole epochs, or until a budget is spent."""

from isoscope.config.training import Budget
from isoscope.errors import InputError
from isoscope.objectives import Indices, Objective


def updates(budget: Budget | None, objective: Objective, *, epochs: int, per_epoch: int) -> int:
    """Return the number of updates of a run: all of its epochs, or the first that reach the budget.

    A function of the objective's plans alone, so a resumed run has the same length. Raises `InputError` if the epochs
    end before the budget is spent.
    """
    if budget is None:
        return per_epoch * epochs
    spent, step = 0.0, 0
    for epoch in range(1, epochs + 1):
        for rows in objective.plan("train", epoch):
            step += 1
            spent += _cost(budget, objective, rows, epoch)
            if spent >= budget.number:
                return step
    raise InputError(
        f"training.budget.number: {budget.number:,} {budget.kind}, but the {epochs} epochs end after {spent:,.0f}; "
        "set more epochs"
    )


def _cost(budget: Budget, objective: Objective, rows: Indices, epoch: int) -> float:
    match budget.kind:
        case "updates":
            return 1.0
        case "tokens":
            return float(objective.tokens("train", rows))
        case "predictions":
            return objective.weight("train", rows, epoch)
