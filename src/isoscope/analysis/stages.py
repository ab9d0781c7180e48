"""The five stages of a training run, found by rule from its geometry and its metrics instead of by eye.

Boundaries: `geometry.change_points.segment` on the series of `SERIES` at the last layer's [CLS]; and, each by itself at
the snapshots that have it, on the training loss and on the validation figures, so that neither dilutes the other: what
moves alone is found, too. The level of the test is shared out among them. Names, in this order, by what a segment's
geometry is like (separability: held-out linear separability; separation: Fisher ratio, in logs):

Unstructured            separability ends within two standard errors of chance.
Maximum separation      among the others, the segment with the largest mean separation.
Entering structure      before that one.
Late homogenisation     after it, with separation lower than there by `FALL` or more and AvgSim higher than there.
Morphological changes   after it, otherwise.

A stage may be absent, and a name may cover several segments.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from isoscope.errors import InputError
from isoscope.geometry.change_points import SHORTEST, segment

SERIES = ("linear_separability", "fisher_ratio", "effective_rank", "avg_sim")
METRICS = ("training_loss", "validation_loss", "validation_accuracy")
KINDS = (SERIES, METRICS[:1], METRICS[1:])
"""Series that are known at the same snapshots; boundaries of the first come first."""
LEVEL = 0.05
"""How often a run without a change may be given a boundary."""
MOST = 4
"""Boundaries of a run."""
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


def metric_series(points: Iterable[Mapping[str, Any]], steps: Sequence[int]) -> pd.DataFrame:
    """The series `METRICS` of one run at its snapshots' `steps`: columns step and one for each, NaN where unknown.

    Training loss: mean of the losses logged since the snapshot before. Validation: of a snapshot at an epoch's end (or
    before training). `points` of the run's metrics.jsonl.
    """
    known = pd.DataFrame(
        [(point["name"], point.get("step"), point["value"]) for point in points], columns=["name", "step", "value"]
    )
    order = np.sort(np.asarray(steps, dtype=np.int64))
    found = pd.DataFrame({"step": order})
    losses = known[known["name"] == "step/loss"]
    since = np.searchsorted(order, losses["step"].to_numpy(dtype=np.int64))  # the snapshot that a loss leads up to
    found["training_loss"] = losses["value"].groupby(since).mean().reindex(range(len(order))).to_numpy()
    for name in METRICS[1:]:
        at = known[known["name"] == name.replace("_", "/")].drop_duplicates("step", keep="last").set_index("step")
        found[name] = at["value"].reindex(order).to_numpy(dtype=float)
    return found


def series(geometry: pd.DataFrame, metrics: pd.DataFrame | None = None) -> pd.DataFrame:
    """The series that stages are looked for in: a row per snapshot by step, from one run's table of measures.

    Those of `metrics` (as `metric_series` gives them) stand beside, if a boundary could be seen in them: at twice as
    many snapshots as a segment takes. A snapshot whose geometry is not whole is left out. Raises `InputError` where a
    measure the series come from is not in the table.
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
    wide = wide[list(SERIES)]
    found = wide[np.isfinite(wide).all(axis=1)].reset_index()
    if metrics is not None:
        both = found.merge(metrics, on="step", how="left").replace([np.inf, -np.inf], np.nan)
        found = both.drop(columns=[name for name in METRICS if both[name].notna().sum() < 2 * SHORTEST])
    return found


def boundaries(table: pd.DataFrame, *, seed: int, draws: int = 199) -> tuple[int, ...]:
    """Rows of `series` at which a segment begins, but the first: those of each kind of series, at most `MOST`.

    One nearer than a segment's length to one that is there already, or to an end, is no other.
    """
    kinds = [kind for names in KINDS if (kind := [name for name in names if name in table])]
    found: list[int] = []
    for kind in kinds:
        there = np.flatnonzero(table[kind].notna().all(axis=1))
        if len(there) < 2 * SHORTEST:
            continue
        values = table[kind].to_numpy(dtype=float)[there]
        for place in segment(values, most=MOST, level=LEVEL / len(kinds), draws=draws, seed=seed).boundaries:
            others = np.array([0, len(table), *found])
            if len(found) < MOST and np.abs(others - there[place]).min() >= SHORTEST:
                found.append(int(there[place]))
    return tuple(sorted(found))


def stages(
    geometry: pd.DataFrame,
    labels: npt.ArrayLike,
    *,
    metrics: pd.DataFrame | None = None,
    seed: int = 0,
    draws: int = 199,
) -> list[Stage]:
    """The stages of one run, in order; `labels` of the probe set give chance and its standard error.

    `geometry` and `metrics` as `series` takes them; `draws` of the test. None for fewer snapshots than two segments
    take.
    """
    table = series(geometry, metrics)
    if len(table) < 2 * SHORTEST:
        return []
    # One order in memory whatever columns stand beside them: sums depend on it in their last bit.
    values = np.ascontiguousarray(table[list(SERIES)].to_numpy(dtype=float))
    edges = [0, *boundaries(table, seed=seed, draws=draws), len(table)]
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
