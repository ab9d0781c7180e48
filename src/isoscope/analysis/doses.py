"""Penalties at equal effect: each with weights of its own, its figures read off where another figure is equal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from isoscope.analysis.differences import differences
from isoscope.geometry.moments import Floats

FEWEST_WEIGHTS = 3
"""Of a family, below which there is nothing to read between."""
LEVELS = 3
"""Places at which families are compared, evenly within what all of them reach."""
COLUMNS = ["arm", "seed", "figure", "value"]


class Dose(NamedTuple):
    """How much an arm has: `family` is the arm but for its weight, `group` the arm but for its share of train."""

    family: str
    group: str
    weight: float
    fraction: float


def dose(run: Mapping[str, Any]) -> Dose:
    """The dose of a run by what its config.yaml holds; the weight is 0 where there is no penalty."""
    axes, params = run["axes"], run["params"]
    family, group = ("-".join(value for axis, value in axes.items() if axis != one) for one in ("weight", "fraction"))
    return Dose(family, group, float(params["penalty"].get("weight", 0.0)), float(params["training"]["fraction"]))


def equated(
    averages: pd.DataFrame, doses: Mapping[str, Dose], *, across: str, figures: Sequence[str], log: bool = False
) -> pd.DataFrame:
    """Each family's `figures` where its `across` has `LEVELS` equal values: arm (the family), seed, figure, value.

    Of each seed the arms of a family in the order of their weights are a path through (across, figure); its figure at a
    level is interpolated linearly where the path first comes to it: at the smallest dose. Levels divide evenly what all
    paths reach; none where they share nothing. `log`: interpolate over log(across), of values above 0 only.
    `averages`: arm, seed, figure, value. Families of fewer than `FEWEST_WEIGHTS` weights are left out.
    """
    wide = averages.pivot_table(index=["arm", "seed"], columns="figure", values="value", sort=False)
    figures = [one for one in figures if one in wide]
    if across not in wide or not figures:
        return pd.DataFrame(columns=COLUMNS)
    paths = dict(_paths(wide, doses, across, log=log))
    low = max((path.index.min() for path in paths.values()), default=0.0)
    high = min((path.index.max() for path in paths.values()), default=0.0)
    levels = np.linspace(low, high, LEVELS + 2)[1:-1] if low < high else np.zeros(0)
    rows = []
    for level in levels:
        shown = float(np.exp(level)) if log else float(level)
        for (family, seed), path in paths.items():
            for figure in figures:
                value = _first_at(path.index.to_numpy(), path[figure].to_numpy(), float(level))
                rows.append((family, seed, f"{figure} where {across} is {shown:.3g}", value))
    return pd.DataFrame(rows, columns=COLUMNS)


def at_equal(
    averages: pd.DataFrame,
    doses: Mapping[str, Dose],
    *,
    anisotropy: Sequence[str],
    force: str,
    metrics: Sequence[str],
    confidence: float,
    power: float,
) -> pd.DataFrame:
    """Families less the first one: `metrics` at equal `anisotropy`, and both at an equal `force` (over its logarithm).

    Columns as of `differences`; no rows where nothing can be compared.
    """
    tables = [equated(averages, doses, across=one, figures=metrics) for one in anisotropy]
    tables.append(equated(averages, doses, across=force, figures=[*metrics, *anisotropy], log=True))
    found = pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True).dropna()
    return differences(found, confidence=confidence, power=power) if found["arm"].nunique() > 1 else pd.DataFrame()


def _paths(
    wide: pd.DataFrame, doses: Mapping[str, Dose], across: str, *, log: bool
) -> Iterator[tuple[tuple[str, int], pd.DataFrame]]:
    """(family, seed) → its figures by `across`, or its logarithm, in the order of weights."""
    arms = wide.index.get_level_values("arm")
    table = wide.assign(family=[doses[arm].family for arm in arms], weight=[doses[arm].weight for arm in arms])
    for (family, seed), rows in table.reset_index("seed").groupby(["family", "seed"], sort=False):
        path = rows.sort_values("weight").dropna(subset=[across])
        path = path[path[across] > 0] if log else path
        if path["weight"].nunique() >= FEWEST_WEIGHTS:
            place = np.log(path[across].astype(float)) if log else path[across]
            yield (str(family), int(seed)), path.set_index(place.rename("place"))


def _first_at(places: Floats, values: Floats, level: float) -> float:
    """Where the path through (place, value) first comes to the level; NaN where it never does."""
    for one in range(len(places) - 1):
        low, high = places[one], places[one + 1]
        if min(low, high) <= level <= max(low, high):
            share = 0.0 if low == high else (level - low) / (high - low)
            return float(values[one] + share * (values[one + 1] - values[one]))
    return float("nan")
