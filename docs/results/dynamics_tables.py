"""The tables of dynamics.md that have a verdict, from the per-run tables in docs/results/dynamics/.

Here is also the claim that the objective and not the data decides which parts lower the loss.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from dynamics_agreement import geometry_layers
from dynamics_claims import BY_LAYER, CLAIMS, ONE, PUBLISHED, RELATIVE_CLAIMS, claimed, likeness
from dynamics_hurting import claims_hurting, ranks
from dynamics_shares import OBJECTIVES, called, of_part
from judged import POWER
from per_run import seeds_of, stored
from written import CONFIDENCE, NONE, Table, between, number

from isoscope.platform.statistics.cell_permutation import (
    Permuted,
    by_condition,
    first_over_second,
    judge_cells,
)
from isoscope.platform.statistics.paired import holm, minimum_detectable_effect, paired_t
from isoscope.studies.dynamics.sums import PART, RUN

CHOICES = {"all": ("masked", "causal", "translation"), "MLM and CLM": ("masked", "causal")}
"""Objectives; translation has two stacks and cross-attention, which is a difference in itself."""
ESTIMATORS = ("nats", "minibatch")
"""Columns of the stored profiles: the fixed set, and the minibatch estimator."""
DISTANCES = ("hellinger", "cosine")
CONDITION = ["data", "size"]


def distances(values: np.ndarray, kind: str) -> np.ndarray:
    """Return the distances `[n, n]` of profiles `[n, g]`.

    Hellinger: ‖√p − √q‖/√2 with p = |values| / Σ|values|. It reads magnitudes: what helps and what hurts count alike.
    By the cosine: √(2 − 2 cos), between unit vectors. It reads signed values. The root makes squared distances add up
    as squares do; 1 − cos itself does not.
    """
    points = values / np.linalg.norm(values, axis=1, keepdims=True)
    if kind == "hellinger":
        points = np.sqrt(np.abs(values) / np.abs(values).sum(axis=1, keepdims=True) / 2)
    return np.linalg.norm(points[:, None] - points[None, :], axis=2)


def decides() -> Table:
    """Return the claim that the objective explains more of the variance of profiles than the data condition does.

    A family over choices of objectives and distances; a choice with fewer than two whole conditions has no row. The
    unit is the cell, objective × condition: the mean profile of its seeds.
    """
    found = []
    for choice, objectives in CHOICES.items():
        table = whole(of_part("data", "profiles"), objectives)
        count = len(table[CONDITION].drop_duplicates())
        for distance in DISTANCES if count > 1 else ():
            both = [by_cells(table, distance, estimator) for estimator in ESTIMATORS]
            found.append((f"{choice}, {distance}", f"{len(objectives)} × {count}", *both))
    rows = []
    corrected = holm([fixed.p for *_, (fixed, _), _ in found])
    for (text, cells, (fixed, over), (minibatch, _)), p in zip(found, corrected, strict=True):
        test, detectable = paired_t(over, confidence=CONFIDENCE), None
        if test.interval is not None:
            reach = minimum_detectable_effect(test.n, tests=len(found), confidence=CONFIDENCE, power=POWER)
            detectable = reach * (test.sd or 0.0)
        verdict = judge_cells(fixed, p_holm=p, low=test.interval and test.interval.low, confidence=CONFIDENCE)
        numbers = number(fixed.difference, 3, True), number(fixed.p), number(fixed.least)
        random = between(test.interval), number(detectable)
        beside = f"{number(minibatch.difference, 3, True)}: {number(minibatch.p)}"
        rows.append((text, cells, *numbers, *random, f"*{verdict.word}*: {verdict.reason}", beside))
    head = ("share of the objective − of the data condition, of cells", "cells", "difference", "p of all orders")
    more = ("least possible p", "over conditions", "detectable", "verdict", "minibatch estimator: p")
    return Table((*head, *more), rows)


def by_cells(table: pd.DataFrame, distance: str, estimator: str = "nats") -> tuple[Permuted, list[float]]:
    """Return whether the objective explains more than the data condition, from the mean profiles of cells.

    Also the values of the difference by data condition, whose interval takes the conditions as a sample.
    """
    runs = table.pivot_table(index=RUN, columns=PART, values=estimator, fill_value=0.0)
    cells = runs.groupby(level=["objective", *CONDITION]).mean()
    conditions = [f"{data}, {size}" for _, data, size in cells.index]
    design = distances(cells.to_numpy(), distance), cells.index.get_level_values("objective").tolist(), conditions
    return first_over_second(*design), by_condition(*design)


def whole(table: pd.DataFrame, objectives: tuple[str, ...]) -> pd.DataFrame:
    """Return the runs of these objectives, in the data conditions that have every seed of all."""
    own = table[table["objective"].isin(objectives)]
    seeds = own.groupby([*CONDITION, "objective"])["seed"].nunique().groupby(CONDITION)
    complete = (seeds.min() == own["seed"].nunique()) & (seeds.size() >= len(objectives))
    return own.merge(complete[complete].index.to_frame(index=False), on=CONDITION)


def conditions() -> Table:
    """Return the runs of each data condition: seeds and mean test loss of each objective, and what sums to the change.

    Losses of two conditions are of other texts, those of masked models of the masked tokens alone.
    """
    metrics, closed = stored("dynamics/data.csv"), of_part("data", "closed")
    losses = seeds_of(metrics[metrics["metric"] == "test/loss"])
    rows = []
    for (data, size), own in of_part("data", "profiles").groupby(CONDITION):
        arms = own.drop_duplicates("arm").set_index("objective")["arm"]
        found = [list(losses[arms[name]].values()) if name in arms else [] for name in CHOICES["all"]]
        cells = [(len(values), number(float(np.mean(values))) if values else NONE) for values in found]
        sums = closed[closed["arm"].isin(arms)]
        share = np.average(sums["share_closed"], weights=sums["intervals"])
        rows.append((data, number(size, 0), *sum(cells, ()), number(sums["intervals"].sum(), 0), f"{share:.1%}"))
    heads = [(f"{OBJECTIVES[name]}: seeds", f"{OBJECTIVES[name]}: loss") for name in CHOICES["all"]]
    return Table(("data", "examples", *sum(heads, ()), "intervals", "closed"), rows)


def geometry() -> Table:
    """Return whether a layer's geometry changes when this layer helps, rather than when any layer of its stack does."""
    found = geometry_layers(stored("dynamics/geometry.csv"), CONFIDENCE)
    order = found["arm"].map(lambda arm: [*OBJECTIVES].index(arm.partition("-")[0])).argsort(kind="stable")
    rows = [
        (
            *(called(one["arm"]), one["stack"], one["measure"], one["lag"], one["n"]),
            number(one["difference"], 2, True),
            NONE if pd.isna(one["low"]) else f"[{number(one['low'], 2, True)}, {number(one['high'], 2, True)}]",
            *(number(one[name], 2) for name in ("p_holm", "detectable")),
        )
        for one in found.iloc[order].to_dict("records")
    ]
    head = ("arm", "stack", "measure", "lag", "seeds", "difference of r", "interval", "p (Holm)", "detectable")
    return Table(head, rows)


_SHARES = "difference of shares"
TABLES: dict[str, Callable[[], Table]] = {
    "dynamics/likeness": likeness,
    "dynamics/claims_published": partial(claimed, _SHARES, PUBLISHED),
    "dynamics/decides": decides,
    "dynamics/conditions": conditions,
    "dynamics/geometry": geometry,
    "dynamics/claims_by_layer": partial(claimed, f"{ONE}, over the mean", BY_LAYER, relative=True),
    "dynamics/claims": partial(claimed, _SHARES, CLAIMS),
    "dynamics/claims_relative": partial(claimed, "difference over the mean", RELATIVE_CLAIMS, relative=True),
    "dynamics/ranks": partial(ranks, "own"),
    "dynamics/claims_hurting": claims_hurting,
    "dynamics/ranks_dense": partial(ranks, "dense"),
}
