"""Does the objective or the data decide which parts lower the loss? Tables of the runs of the profile dynamics_data."""

import numpy as np
import pandas as pd
from dynamics_shares import OBJECTIVES, of_part
from numpy.typing import NDArray
from per_run import stored
from written import CONFIDENCE, Table, number

from isoscope.platform.statistics.cell_permutation import Permuted, first_over_second, judge_cells
from isoscope.platform.statistics.paired import holm
from isoscope.studies.dynamics.profiles import PART, RUN

Array = NDArray[np.float64]
CHOICES = {"all": ("masked", "causal", "translation"), "MLM and CLM": ("masked", "causal")}
"""Objectives; translation has two stacks and cross-attention, which is a difference in itself."""
ESTIMATORS = ("nats", "minibatch")
"""Columns of the stored profiles: the fixed set, and the minibatch estimator."""
CONDITION = ["data", "size"]


def every(estimator: str = "nats") -> pd.DataFrame:
    """Return the profiles of all stored runs; `nats` is the estimator's."""
    table = of_part("data", "profiles")
    return table.assign(nats=table[estimator])[[*RUN, *PART, "nats"]]


def hellinger(values: Array) -> Array:
    """Return the Hellinger distances `[n, n]` of profiles `[n, g]`: ‖√p − √q‖/√2 with p = |values| / Σ|values|.

    It reads magnitudes: what helps and what hurts count alike.
    """
    return _euclidean(np.sqrt(np.abs(values) / np.abs(values).sum(axis=1, keepdims=True)) / np.sqrt(2))


def cosine(values: Array) -> Array:
    """Return the distances `[n, n]` of profiles `[n, g]` by their cosine: √(2 − 2 cos), between unit vectors.

    It reads signed values. The root makes squared distances add up as squares do; 1 − cos itself does not.
    """
    return _euclidean(values / np.linalg.norm(values, axis=1, keepdims=True))


def _euclidean(points: Array) -> Array:
    distances: Array = np.linalg.norm(points[:, None] - points[None, :], axis=2)
    return distances


DISTANCES = {"hellinger": hellinger, "cosine": cosine}


def conditions() -> Table:
    """Return the stored runs by data and size: seeds and validation loss by objective, and whether intervals closed."""
    losses = stored("dynamics/data.csv").query("metric == 'validation/loss'").sort_values("step")
    losses = losses.groupby(["arm", "seed"])["value"].last().reset_index()
    table, rows = every().drop_duplicates(["arm", "seed"]).merge(losses, on=["arm", "seed"]), []
    objectives = {name: called for name, called in OBJECTIVES.items() if name in {*table["objective"]}}
    closure = of_part("data", "closed").groupby("arm")[["intervals", "open"]].sum()
    for (data, size), own in table.groupby(CONDITION):
        sums = closure.loc[sorted({*own["arm"]})].sum()
        values = [own.loc[own["objective"] == name, "value"] for name in objectives]
        cells = [cell for one in values for cell in (len(one), number(one.mean()))]
        closed = f"{100 * (1 - sums['open'] / sums['intervals']):.1f} %"
        rows.append((data, f"{size:,}", *cells, f"{sums['intervals']:,}", closed))
    columns = (f"{name}: {what}" for name in objectives.values() for what in ("seeds", "loss"))
    return Table(("data", "examples", *columns, "intervals", "closed"), rows)


def decides() -> Table:
    """Return the claim that the objective explains more of the variance of profiles than the data condition does.

    A family over choices of objectives and distances; a choice with fewer than two whole conditions has no row. The
    unit is the cell, objective × condition: the mean profile of its seeds.
    """
    found = []
    for choice, objectives in CHOICES.items():
        tables = [whole(every(name), objectives) for name in ESTIMATORS]
        count = len(tables[0][CONDITION].drop_duplicates())
        for distance in DISTANCES if count > 1 else ():
            both = [by_cells(table, distance) for table in tables]
            found.append((f"{choice}, {distance}", f"{len(objectives)} × {count}", *both))
    rows = []
    corrected = holm([fixed.p for *_, fixed, _ in found])
    for (text, cells, fixed, minibatch), p in zip(found, corrected, strict=True):
        verdict = judge_cells(fixed, p_holm=p, confidence=CONFIDENCE)
        numbers = number(fixed.difference, 3, True), number(fixed.p), number(fixed.least)
        beside = f"{number(minibatch.difference, 3, True)}: {number(minibatch.p)}"
        rows.append((text, cells, *numbers, f"*{verdict.word}*: {verdict.reason}", beside))
    head = ("share of the objective − of the data condition, of cells", "cells", "difference", "p of all orders")
    return Table((*head, "least possible p", "verdict", "minibatch estimator: p"), rows)


def by_cells(table: pd.DataFrame, distance: str) -> Permuted:
    """Return whether the objective explains more than the data condition, from the mean profiles of cells."""
    runs = table.pivot_table(index=RUN, columns=PART, values="nats", fill_value=0.0)
    cells = runs.groupby(level=["objective", *CONDITION]).mean()
    conditions = [f"{data}, {size}" for _, data, size in cells.index]
    objectives = cells.index.get_level_values("objective").tolist()
    return first_over_second(DISTANCES[distance](cells.to_numpy()), objectives, conditions)


def whole(table: pd.DataFrame, objectives: tuple[str, ...]) -> pd.DataFrame:
    """Return the runs of these objectives, in the data conditions that have every seed of all."""
    own = table[table["objective"].isin(objectives)]
    seeds = own.groupby([*CONDITION, "objective"])["seed"].nunique().groupby(CONDITION)
    complete = (seeds.min() == own["seed"].nunique()) & (seeds.size() >= len(objectives))
    return own.merge(complete[complete].index.to_frame(index=False), on=CONDITION)
