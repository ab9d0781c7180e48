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
    level is interpolated linearly where the path first comes to it: at the smallest dose; NaN where it never does.
    Levels divide evenly what all families reach, by the means over seeds of their ends; none where they share nothing.
    `log`: interpolate over log(across), of values above 0 only. `averages`: arm, seed, figure, value. Families of fewer
    than `FEWEST_WEIGHTS` weights are left out.
    """
    wide = averages.pivot_table(index=["arm", "seed"], columns="figure", values="value", sort=False)
    figures = [one for one in figures if one in wide]
    if across not in wide or not figures:
        return pd.DataFrame(columns=COLUMNS)
    paths = dict(_paths(wide, doses, across, log=log))
    ends = pd.DataFrame([(family, path.index.min(), path.index.max()) for (family, _), path in paths.items()])
    low, high = (0.0, 0.0) if ends.empty else (ends.groupby(0)[1].mean().max(), ends.groupby(0)[2].mean().min())
    levels = np.linspace(low, high, LEVELS + 2)[1:-1] if low < high else np.zeros(0)
    rows = []
    for level, shown in zip(levels, _told_apart(np.exp(levels) if log else levels), strict=True):
        for (family, seed), path in paths.items():
            for figure in figures:
                value = _first_at(path.index.to_numpy(), path[figure].to_numpy(), float(level))
                rows.append((family, seed, f"{figure} where {across} is {shown}", value))
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
    """Families less the first one of their share of the train split: `metrics` at equal `anisotropy`, and both at an
    equal `force` (over its logarithm).

    Columns as of `differences`; no rows where nothing can be compared.
    """
    found = []
    for share in sorted({one.fraction for one in doses.values()}):
        rows = averages[[doses[arm].fraction == share for arm in averages["arm"]]]
        tables = [equated(rows, doses, across=one, figures=metrics) for one in anisotropy]
        tables.append(equated(rows, doses, across=force, figures=[*metrics, *anisotropy], log=True))
        table = pd.concat(tables, ignore_index=True).dropna()
        if table["arm"].nunique() > 1:
            found.append(differences(table, confidence=confidence, power=power))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


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


def _told_apart(values: Floats) -> list[str]:
    """Each number with as many digits as it takes to tell them apart, three at least."""
    for digits in range(3, 18):
        shown = [f"{value:.{digits}g}" for value in values]
        if len(set(shown)) == len(set(values.tolist())):
            break
    return shown


def _first_at(places: Floats, values: Floats, level: float) -> float:
    """Where the path through (place, value) first comes to the level; NaN where it never does."""
    for one in range(len(places) - 1):
        low, high = places[one], places[one + 1]
        if min(low, high) <= level <= max(low, high):
            share = 0.0 if low == high else (level - low) / (high - low)
            return float(values[one] + share * (values[one + 1] - values[one]))
    return float("nan")
