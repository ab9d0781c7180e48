"""The five stages of a training run, found by rule from its geometry instead of by eye.

Boundaries: `geometry.change_points.segment` on the series of `SERIES` at the last layer's [CLS]. Names, in this order,
by what a segment is like (separability: held-out linear separability; separation: Fisher ratio, in logs):

Unstructured            separability ends within two standard errors of chance.
Maximum separation      among the others, the segment with the largest mean separation.
Entering structure      before that one.
Late homogenisation     after it, with separation lower than there by `FALL` or more and AvgSim higher than there.
Morphological changes   after it, otherwise.

A stage may be absent, and a name may cover several segments.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from isoscope.errors import InputError
from isoscope.geometry.change_points import SHORTEST, segment

SERIES = ("linear_separability", "fisher_ratio", "effective_rank", "avg_sim")
FALL = float(np.log(1.25))
"""A fifth less separation."""
ENOUGH = 25
"""Snapshots below which boundaries are hints only."""


class Stage(NamedTuple):
    """One segment: its name, its first and last snapshot with their steps, and what the name was given for."""

    name: str
    first: str
    last: str
    step_first: int
    step_last: int
    separability: float
    separation: float
    avg_sim: float


def series(geometry: pd.DataFrame) -> pd.DataFrame:
    """The series that stages are looked for in: a row per snapshot by step, from one run's table of measures.

    Raises `InputError` where a measure they come from is not in the table.
    """
    rows = geometry[(geometry["vectors"] == "first") & geometry["step"].notna()]
    rows = rows[rows["layer"] == rows["layer"].max()]
    wide = rows.set_index(["step", "snapshot", "figure"])["value"].unstack("figure").sort_index()
    if lacking := [name for name in SERIES if name not in wide]:
        raise InputError(
            f"stages: {', '.join(lacking)} not measured; they need classes, and anisotropy's companions isoscore, "
            "similarity and classes in measures.names"
        )
    wide["fisher_ratio"] = np.log(wide["fisher_ratio"].clip(lower=1e-6))
    return wide[list(SERIES)].reset_index()


def stages(geometry: pd.DataFrame, labels: npt.ArrayLike, *, seed: int = 0) -> list[Stage]:
    """The stages of one run, in order; `labels` of the probe set give chance and its standard error.

    None for fewer snapshots than two segments take.
    """
    table = series(geometry)
    values = table[list(SERIES)].to_numpy(dtype=float)
    whole = np.isfinite(values).all(1)
    table, values = table[whole].reset_index(drop=True), values[whole]
    if len(values) < 2 * SHORTEST:
        return []
    found = segment(values, seed=seed)
    edges = [0, *found.boundaries, len(values)]
    parts = [slice(start, end) for start, end in pairwise(edges)]
    means = np.array([values[part].mean(0) for part in parts])
    separability, separation, similarity = (means[:, SERIES.index(name)] for name in (SERIES[0], SERIES[1], SERIES[3]))
    counts = np.bincount(np.asarray(labels, dtype=np.int64))
    chance = counts.max() / counts.sum()
    limit = chance + 2 * np.sqrt(chance * (1 - chance) / counts.sum())
    structured = np.array([values[part, 0][-1] > limit for part in parts])
    peak = int(np.where(structured, separation, -np.inf).argmax()) if structured.any() else -1
    names = [_name(number, peak, bool(structured[number]), separation, similarity) for number in range(len(parts))]
    return [
        Stage(
            name,
            str(table["snapshot"].iloc[part.start]),
            str(table["snapshot"].iloc[part.stop - 1]),
            int(table["step"].iloc[part.start]),
            int(table["step"].iloc[part.stop - 1]),
            float(separability[number]),
            float(separation[number]),
            float(similarity[number]),
        )
        for number, (name, part) in enumerate(zip(names, parts, strict=True))
    ]


def _name(
    number: int,
    peak: int,
    structured: bool,
    separation: npt.NDArray[np.float64],
    similarity: npt.NDArray[np.float64],
) -> str:
    if not structured:
        return "Unstructured"
    if number == peak:
        return "Maximum separation"
    if number < peak:
        return "Entering structure"
    fallen = separation[peak] - separation[number] >= FALL and similarity[number] > similarity[peak]
    return "Late homogenisation" if fallen else "Morphological changes"
