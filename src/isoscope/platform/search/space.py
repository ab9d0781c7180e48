"""Draw a trial from the search space, in Optuna's terms; count the points of a grid and locate a choice on it."""

import copy
import json
import math
import warnings
from collections.abc import Mapping
from typing import Any

from optuna.trial import FixedTrial, FrozenTrial, Trial

from isoscope.platform.config.searching import Dimension, Search, branches, exists


def suggest(search: Search, trial: Trial | FixedTrial) -> dict[str, Any]:
    """Draw every name of the space that exists under the earlier choices, in order.

    A name that does not exist is never drawn, so no sampler learns from it. Optuna has no list-valued choices: lists
    are stored as JSON.
    """
    chosen: dict[str, Any] = {}
    for name, one in search.space.items():
        if exists(one, chosen):
            known = _choices(one)
            chosen[name] = known[trial.suggest_categorical(name, [*known])] if known else _number(trial, name, one)
    return chosen


def chosen(search: Search, params: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a stored trial, from its parameters in the study."""
    known = {name: _choices(one) for name, one in search.space.items() if name in params}
    return {name: choices.get(params[name], params[name]) for name, choices in known.items()}


def inside(search: Search, trial: FrozenTrial) -> FrozenTrial | None:
    """Return an ended trial of another space as a trial of this space; None if its choices lie outside."""
    fixed = FixedTrial(trial.params)
    try:
        with warnings.catch_warnings(action="error"):  # a number out of range is a warning
            suggest(search, fixed)
    except (ValueError, UserWarning):
        return None
    if fixed.params != trial.params:
        return None
    moved = copy.deepcopy(trial)
    moved.distributions = fixed.distributions
    return moved


def _choices(one: Dimension) -> dict[Any, Any]:
    """Return each choice by the value that stands for it in the study."""
    return {json.dumps(choice) if isinstance(choice, tuple) else choice: choice for choice in one.choices}


def _number(trial: Trial | FixedTrial, name: str, one: Dimension) -> float | int:
    low, high = one.bounds
    if one.whole:
        return trial.suggest_int(name, int(low), int(high), step=int(one.step or 1), log=one.log)
    return trial.suggest_float(name, low, high, step=one.step, log=one.log)


def combinations(search: Search) -> int:
    """Return the number of points of the grid: the trials of a full grid search."""
    return sum(math.prod(_values(one) for one in others.values()) for _, others in branches(search))


def point(search: Search, chosen: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Return the grid point of a trial: choices, and numbers in steps, as samplers round differently.

    None if it is incomplete. The trials of a study lie on its grid, since its space is part of its identity.
    """
    space = {name: one for name, one in search.space.items() if exists(one, chosen)}
    if not space.keys() <= chosen.keys():
        return None
    return tuple(
        chosen[name] if one.choices else round((chosen[name] - one.bounds[0]) / (one.step or 1))
        for name, one in space.items()
    )


def wanted(search: Search) -> int:
    """Return the number of trials of a search: its budget, or the size of the grid if that is smaller."""
    trials = search.budget.trials
    return min(trials, combinations(search)) if search.sampler.kind == "grid" else trials


def _values(one: Dimension) -> int:
    if one.choices:
        return len(one.choices)
    low, high = one.bounds
    return round((high - low) / (one.step or 1)) + 1
