"""Grid search: count the points of a grid and locate a choice on it."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from isoscope.config.searching import Dimension, Search, exists

_EQUAL = 1e-6
"""Tolerance in steps: samplers round differently."""


def combinations(search: Search) -> int:
    """Return the number of points of the grid: the trials of a full grid search."""
    asked = {name for one in search.space.values() for name in one.when}

    def below(names: list[str], chosen: dict[str, Any]) -> int:
        if not names:
            return 1
        name, *rest = names
        one = search.space[name]
        if not exists(one, chosen):
            return below(rest, chosen)
        if name in asked:
            return sum(below(rest, {**chosen, name: value}) for value in one.choices)
        return _values(one) * below(rest, chosen)

    return below(list(search.space), {})


def point(search: Search, chosen: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the grid index of a choice along each name; None if it is not a grid point or is incomplete."""
    at = []
    for name, one in search.space.items():
        if not exists(one, chosen):
            continue
        if name not in chosen:
            return None
        place = _place(one, chosen[name])
        if abs(place - round(place)) > _EQUAL or not 0 <= round(place) < _values(one):
            return None
        at.append(round(place))
    return tuple(at)


def wanted(search: Search) -> int:
    """Return the number of trials of a search: its budget, or the size of the grid if that is smaller."""
    trials = search.budget.trials
    return min(trials, combinations(search)) if search.sampler.kind == "grid" else trials


def _place(one: Dimension, value: Any) -> float:
    if one.choices:
        return one.choices.index(value) if value in one.choices else -1
    return (value - one.bounds[0]) / (one.step or 1)


def _values(one: Dimension) -> int:
    if one.choices:
        return len(one.choices)
    low, high, step = (Decimal(str(number)) for number in (*one.bounds, one.step or 1))
    return int((high - low) // step) + 1
