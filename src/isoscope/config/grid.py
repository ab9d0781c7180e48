"""A space whose numbers are all steps apart: how many choices it has, and where one stands among them."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from isoscope.config.searching import Dimension, Search, exists

_EQUAL = 1e-6
"""Steps that a number may be off: samplers differ in how they round."""


def combinations(search: Search) -> int:
    """How many different choices a space has whose numbers are all steps apart: the trials of a whole grid."""
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
    """Where a choice stands on the grid, by name; None where it is none of its points, or chooses but a part."""
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
    """Trials until a search is done: its budget's, or all of a grid where those are fewer."""
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
