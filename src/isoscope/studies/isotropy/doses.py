"""Compare penalties at matched anisotropy or matched gradient, by interpolation along each weight sweep."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from isoscope.base.errors import InputError
from isoscope.platform.statistics.differences import WHERE, differences

FEWEST_WEIGHTS = 3
"""Minimum number of weights in a family for interpolation."""
NOISE = 2.0
"""Families are compared only if the range that all reach is wider than this many sd between an arm's seeds: in a
narrower range, paths cross by chance."""
LEVELS = 3
"""Number of levels at which families are compared, evenly spaced within the range that all reach."""
Floats = npt.NDArray[np.float64]
COLUMNS = ["arm", "seed", "metric", "value"]


class Dose(NamedTuple):
    """An arm's penalty weight and share of train. `family`: the arm without its weight; `group`: without its share.

    Weights are absolute (not relative to the task loss) and may have either sign.
    """

    family: str
    group: str
    weight: float
    fraction: float


def dose(run: Mapping[str, Any]) -> Dose:
    """Return the dose of a run from the contents of its config.yaml. The weight is 0 if there is no penalty."""
    axes, params = run["axes"], run["params"]
    family, group = ("-".join(value for axis, value in axes.items() if axis != one) for one in ("weight", "fraction"))
    return Dose(family, group, float(params["penalty"].get("weight", 0.0)), float(params["training"]["fraction"]))


def references(doses: Mapping[str, Dose]) -> dict[str, str]:
    """Return arm → its reference arm.

    In a family with several arms it is the arm with the smallest weight; else it is the first arm with the same share
    of the train split. Raises `InputError` for weights of both signs in a family.
    """
    found = {}
    for arm, one in doses.items():
        family = {other: each.weight for other, each in doses.items() if each.family == one.family}
        low, high = min(family.values()), max(family.values())
        if low < 0 < high:
            raise InputError(f"{one.family}: weights of both signs, {low:g} and {high:g}; make them two penalties")
        first = next(other for other, each in doses.items() if each.fraction == one.fraction)
        found[arm] = min(family, key=lambda other: abs(family[other])) if len(family) > 1 else first
    return found


def equated(
    averages: pd.DataFrame, doses: Mapping[str, Dose], *, across: str, metrics: Sequence[str], log: bool = False
) -> pd.DataFrame:
    """Return each family's `metrics` at `LEVELS` matched values of `across`: arm (the family), seed, metric, value.

    - For each seed, a family's arms in the order of their weights form a path through (across, metric).
    - The value at a level is interpolated linearly where the path first reaches the level, which is at the smallest
      dose. It is NaN if the path never reaches it, or has a weight without a value of `across` before it does.
    - Levels are evenly spaced in the range that all families reach, by the means over seeds of their ends. There are no
      levels if this range is at most `NOISE` sd between seeds.
    - `log`: interpolate over log(across), using only values above 0.
    - `averages`: arm, seed, metric, value. Families with fewer than `FEWEST_WEIGHTS` weights are left out.
    """
    if averages.empty:  # runs without an update
        return pd.DataFrame(columns=COLUMNS)
    wide = averages.pivot_table(index=["arm", "seed"], columns="metric", values="value", sort=False)
    metrics = [one for one in metrics if one in wide]
    if across not in wide or not metrics:
        return pd.DataFrame(columns=COLUMNS)
    paths = dict(_paths(wide, doses, across, log=log))
    ends = pd.DataFrame(
        [(family, path.index.min(), path.index.max()) for (family, _), path in paths.items() if path is not None]
    )
    low, high = (0.0, 0.0) if ends.empty else (ends.groupby(0)[1].mean().max(), ends.groupby(0)[2].mean().min())
    places = np.log(wide[across].where(wide[across] > 0)) if log else wide[across]
    noise = float(np.sqrt(np.nan_to_num(places.groupby("arm").var().mean())))
    levels = np.linspace(low, high, LEVELS + 2)[1:-1] if high - low > NOISE * noise else np.zeros(0)
    texts = _distinct(np.exp(levels) if log else levels)
    rows = [
        (*run, f"{metric}{WHERE}{across} is {text}", np.nan if path is None else _first_at(path[metric], float(level)))
        for (level, text), (run, path), metric in product(zip(levels, texts, strict=True), paths.items(), metrics)
    ]
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
    """Test families against the first family with the same share of the train split, at matched effect.

    `metrics` are compared at matched `anisotropy`; `metrics` and `anisotropy` at matched `force` (over its logarithm).
    Columns as in `differences`; p is corrected over all tests of a metric. There are no rows if nothing is comparable.
    A seed whose path never reaches a level is `dropped` there, and the level is not tested.
    """
    found: list[pd.DataFrame] = []
    against: dict[str, str] = {}
    for share in sorted({one.fraction for one in doses.values()}):
        rows = averages[[doses[arm].fraction == share for arm in averages["arm"]]]
        tables = [equated(rows, doses, across=one, metrics=metrics) for one in anisotropy]
        tables.append(equated(rows, doses, across=force, metrics=[*metrics, *anisotropy], log=True))
        found.append(pd.concat(tables, ignore_index=True))
        families = [one.family for one in doses.values() if one.fraction == share]
        against |= dict.fromkeys(families, families[0])
    return differences(pd.concat(found, ignore_index=True), against=against, confidence=confidence, power=power)


def _paths(
    wide: pd.DataFrame, doses: Mapping[str, Dose], across: str, *, log: bool
) -> Iterator[tuple[tuple[str, int], pd.DataFrame | None]]:
    """Yield (family, seed) and its metrics by `across` or its logarithm, in the order of weights; None if too few."""
    arms = wide.index.get_level_values("arm")
    table = wide.assign(family=[doses[arm].family for arm in arms], weight=[doses[arm].weight for arm in arms])
    for (family, seed), rows in table.reset_index("seed").groupby(["family", "seed"], sort=False):
        if rows["weight"].nunique() >= FEWEST_WEIGHTS:
            path = rows.sort_values("weight", key=abs)
            path = path[path[across].isna() | (path[across] > 0)] if log else path
            place = np.log(path[across].astype(float)) if log else path[across]
            enough = path.loc[path[across].notna(), "weight"].nunique() >= FEWEST_WEIGHTS
            yield (str(family), int(seed)), path.set_index(place.rename("place")) if enough else None


def _distinct(values: Floats) -> list[str]:
    """Format numbers with the fewest digits that tell them apart, at least three."""
    shown = ([f"{value:.{digits}g}" for value in values] for digits in range(3, 18))
    return next(texts for texts in shown if len(set(texts)) == len(set(values.tolist())))


def _first_at(path: pd.Series, level: float) -> float:
    """Interpolate the value where the path through (index, value) first reaches the level; NaN if it never does.

    Beside a place that is NaN nobody knows the path, so that it reaches nothing from there on.
    """
    for (low, value), (high, following) in pairwise(path.items()):
        if np.isnan(low) or np.isnan(high):
            break
        if min(low, high) <= level <= max(low, high):
            return float(value + (0.0 if low == high else (level - low) / (high - low)) * (following - value))
    return float("nan")
