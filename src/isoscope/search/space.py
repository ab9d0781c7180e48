"""Draw a trial from the search space, in Optuna's terms."""

import json
from collections.abc import Mapping
from typing import Any

from optuna.trial import Trial

from isoscope.config.searching import Dimension, Search, exists


def suggest(search: Search, trial: Trial) -> dict[str, Any]:
    """Draw every name of the space that exists under the earlier choices, in order.

    A name that does not exist is never drawn, so no sampler learns from it. Optuna has no list-valued choices: lists
    are stored as JSON.
    """
    chosen: dict[str, Any] = {}
    for name, one in search.space.items():
        if exists(one, chosen):
            chosen[name] = _choice(trial, name, one) if one.choices else _number(trial, name, one)
    return chosen


def chosen(search: Search, params: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a stored trial, from its parameters in the study."""
    found = {}
    for name, one in search.space.items():
        if name in params:
            value = params[name]
            known = {_text(choice): choice for choice in one.choices} if one.choices else {}
            found[name] = known.get(value, value)
    return found


def _choice(trial: Trial, name: str, one: Dimension) -> Any:
    known = {_text(choice): choice for choice in one.choices}
    return known[trial.suggest_categorical(name, list(known))]


def _number(trial: Trial, name: str, one: Dimension) -> float | int:
    low, high = one.bounds
    if one.whole:
        return trial.suggest_int(name, int(low), int(high), step=int(one.step or 1), log=one.log)
    return trial.suggest_float(name, low, high, step=one.step, log=one.log)


def _text(choice: Any) -> Any:
    return json.dumps(choice) if isinstance(choice, tuple) else choice
