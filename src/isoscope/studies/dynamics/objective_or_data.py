"""Do the dynamics depend on the objective or on the data? Shares of the variance of profiles, over several studies."""

from collections.abc import Iterator, Mapping
from itertools import permutations as pairs
from typing import Any, NamedTuple

import pandas as pd

from isoscope.base.errors import InputError
from isoscope.platform.statistics.left_out import left_out
from isoscope.platform.statistics.paired import holm
from isoscope.platform.statistics.permutation_manova import WITHIN, cosine, hellinger, jackknife, sources, unit
from isoscope.studies.dynamics.learning import NOT
from isoscope.studies.dynamics.profiles import PART, RUN

DISTANCES = {"hellinger": hellinger, "cosine": cosine}
WHOLE, APART = ("objective", "condition"), ("objective", "data", "size")
"""The factors of the two decompositions; a data condition is data (task) and size (training examples)."""
CALLED = {WITHIN: "seed"}
"""Runs of one cell differ only in their seed."""
ONE_STACK = ("masked", "causal")
"""Objectives of one architecture: translation has two stacks and cross-attention, which is a difference in itself."""
TOLD_PERMUTATIONS = 999


class Decided(NamedTuple):
    """What decides the profile of a run."""

    shares: pd.DataFrame
    """A row per choice of objectives, distance and source: df, share (R²), low, high (over seeds), f, p, p_holm (over
    the table), runs, cells (of all objectives × conditions, those with a run), of (their number).
    """
    told: pd.DataFrame
    """A row per choice of objectives, what is told and what is left out: accuracy, chance, p, p_holm, runs, groups."""
    left_out: tuple[str, ...]
    """Arms that are not trained, as `study: arm`; they are in neither table."""


def objective_or_data(
    studies: Mapping[str, pd.DataFrame], *, confidence: float = 0.95, permutations: int = 9999
) -> Decided:
    """Decompose the variance of the profiles of several studies. `studies`: name → its table `profiles`.

    Shares (`statistics.permutation_manova`): objective; data condition (task and number of training examples);
    `interaction` of the two; and `seed`, between runs that differ in nothing else. If every condition has every
    objective, these four sum to 1. Then the condition's parts, each given the other and the objective: data at equal
    size, size of equal data. A profile is `profiles.halved`; its distances are Hellinger's (magnitudes over their sum)
    or the cosine's (signed values). For all objectives, and for masked and causal models alone.

    Told (`statistics.left_out`, of signed profiles of length 1): the objective in a condition that was left out, the
    condition in an objective or a seed that was left out, and so on, each with its chance level and a p from 999
    permutations at most.

    Raises `InputError` if fewer than two runs are trained, or no factor has two levels.
    """
    table = pd.concat([own.assign(study=name) for name, own in studies.items()], ignore_index=True)
    lost = table[table["word"] == NOT]
    kept = table.drop(lost.index)
    cells = kept.groupby(["objective", "data", "size", "seed"])[["arm", *PART]]
    if doubled := [key for key, own in cells if own["arm"].nunique() > 1 or own.duplicated().any()]:
        raise InputError(
            f"profiles: {len(doubled)} cells have several runs, such as {', '.join(map(str, doubled[0]))}; give "
            "studies whose runs differ in objective, data, size or seed alone"
        )
    runs = kept.pivot_table(index=RUN, columns=PART, values="nats", fill_value=0.0).reset_index()
    if len(runs) < 2:
        raise InputError(
            f"{len(runs)} runs learned enough to be compared (nats below unigrams: table `learned`); train longer, or "
            "more seeds, objectives or data"
        )
    shares: list[dict[str, Any]] = []
    told: list[dict[str, Any]] = []
    masked_and_causal = runs[runs["objective"].isin(ONE_STACK)]
    for objectives, own in (("all", runs), (" and ".join(ONE_STACK), masked_and_causal)):
        if objectives == "all" or len(own) < len(runs):
            shares += ({"objectives": objectives} | row for row in _shares(own, confidence, permutations))
            told += ({"objectives": objectives} | row for row in _told(own, min(permutations, TOLD_PERMUTATIONS)))
    if not shares:
        raise InputError("profiles: one objective and one data condition; give studies that differ in one of them")
    names = (f"{row.study}: {row.arm}" for row in lost.itertuples())
    return Decided(_corrected(shares), _corrected(told), tuple(dict.fromkeys(names)))


def _corrected(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the rows with p by Holm over all of them; NaN where there is no p."""
    return pd.DataFrame([row | {"p_holm": p} for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True)])


def _shares(runs: pd.DataFrame, confidence: float, permutations: int) -> Iterator[dict[str, Any]]:
    by = _factors(runs)
    whole, apart = ({name: by[name] for name in names if len(set(by[name])) > 1} for names in (WHOLE, APART))
    for name, distance in DISTANCES.items() if whole else ():
        distances = distance(_values(runs))
        for factors, shown in ((whole, None), (apart, set(apart) - set(WHOLE))):
            if shown is not None and len(shown) < 2:
                continue  # data or size alone is the condition
            intervals = jackknife(distances, factors, by["seed"], confidence=confidence)
            for source in sources(distances, factors, permutations=permutations):
                own = shown is None or (source.name in shown and source.df)  # no size at equal data: no df
                if own:
                    low, high = intervals[source.name] or (None, None)
                    about: dict[str, Any] = {"distance": name, "source": CALLED.get(source.name, source.name)}
                    about |= {"df": source.df, "share": source.share, "low": low, "high": high}
                    yield about | {"f": source.f, "p": source.p, "runs": len(runs)} | _cells(by)


def _cells(by: Mapping[str, list[str]]) -> dict[str, int]:
    """Return how many cells, objective × condition, have a run, and how many there would be in a full design."""
    objectives, conditions = (by[name] for name in WHOLE)
    return {"cells": len(set(zip(objectives, conditions, strict=True))), "of": len({*objectives}) * len({*conditions})}


def _told(runs: pd.DataFrame, permutations: int) -> Iterator[dict[str, Any]]:
    by = {name: values for name, values in _factors(runs).items() if name in (*WHOLE, "seed") and len(set(values)) > 1}
    profiles = unit(_values(runs))
    for told, group in pairs(by, 2):
        found = left_out(profiles, by[told], by[group], permutations=permutations)
        about = {"told": told, "left_out": group, "accuracy": found.accuracy, "chance": found.chance}
        yield about | {"p": found.p, "runs": found.n, "groups": found.groups}


def _factors(runs: pd.DataFrame) -> dict[str, list[str]]:
    """Return the levels of each run by factor."""
    found = {name: runs[name].astype(str) for name in ("objective", "data", "size", "seed")}
    found["condition"] = found["data"] + ", " + found["size"]
    return {name: levels.tolist() for name, levels in found.items()}


def _values(runs: pd.DataFrame) -> Any:
    return runs.drop(columns=RUN, level=0).to_numpy(dtype=float)
