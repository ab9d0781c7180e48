"""Does the objective or the data decide which parts lower the loss? Tables of the runs of dynamics_data.py."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from dynamics_stored import CONFIDENCE, Lines, called, head, metrics, number, order, stored
from numpy.typing import NDArray

from isoscope.platform.statistics.cell_permutation import Permuted, first_over_second, judge_cells
from isoscope.platform.statistics.paired import holm
from isoscope.studies.dynamics.run_profiles import PART, RUN

Array = NDArray[np.float64]
CHOICES = {"all": ("masked", "causal", "translation"), "MLM and CLM": ("masked", "causal")}
"""Objectives; translation has two stacks and cross-attention, which is a difference in itself."""
ESTIMATORS = ("nats", "minibatch")
"""Columns of the stored profiles: the fixed set, and the minibatch estimator."""


def every(estimator: str = "nats") -> pd.DataFrame:
    """Return the profiles of all stored runs; `nats` is the estimator's."""
    table = stored("data", "profiles")
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


def conditions() -> Lines:
    """Yield the stored runs by data and size: seeds and validation loss by objective, and whether intervals closed."""
    table = every().drop_duplicates(["arm", "seed"])
    losses = metrics("data").query("metric == 'validation/loss'").sort_values("step")
    table = table.merge(losses.groupby(["arm", "seed"])["value"].last().reset_index(), on=["arm", "seed"])
    objectives = sorted(set(table["objective"]), key=lambda name: order(f"{name}-additive"))
    columns = (f"{called(f'{name}-additive')}: {what}" for name in objectives for what in ("seeds", "loss"))
    yield from head("data", "examples", *columns, "intervals", "closed", left=1)
    closure = stored("data", "closed").groupby("arm")[["intervals", "open"]].sum()
    for (data, size), own in table.groupby(["data", "size"]):
        cells, sums = [], closure.loc[sorted(set(own["arm"]))].sum()
        for name in objectives:
            values = own[own["objective"] == name]["value"]
            cells += [str(len(values)), number(values.mean()) if len(values) else "–"]
        cells += [f"{sums['intervals']:,}", f"{100 * (1 - sums['open'] / sums['intervals']):.1f} %"]
        yield f"| {data} | {size:,} | {' | '.join(cells)} |"


def decides() -> Lines:
    """Yield the claim that the objective explains more of the variance of profiles than the data condition does.

    The unit is the cell, objective × condition: the mean profile of its seeds.
    """
    found = [*_by_cells()]
    corrected = holm([fixed.p for _, fixed, _ in found])
    columns = ("cells", "difference", "p of all orders", "least possible p", "verdict", "minibatch estimator: p")
    yield from head("share of the objective − of the data condition, of cells", *columns)
    for (text, fixed, minibatch), p_holm in zip(found, corrected, strict=True):
        verdict = judge_cells(fixed, p_holm=p_holm, confidence=CONFIDENCE)
        cells = [text[1], number(fixed.difference, 3, True), number(fixed.p), number(fixed.least)]
        cells += [
            f"*{verdict.word}*: {verdict.reason}",
            f"{number(minibatch.difference, 3, True)}: {number(minibatch.p)}",
        ]
        yield f"| {text[0]} | {' | '.join(cells)} |"


def _by_cells() -> Iterator[tuple[tuple[str, str], Permuted, Permuted]]:
    """Yield per choice of objectives and distance: its name and its cells, and the test by either estimator.

    Without a choice that has fewer than two conditions with all its runs.
    """
    for choice, objectives in CHOICES.items():
        tables = [_whole(every(name), objectives) for name in ESTIMATORS]
        conditions = len(tables[0][["data", "size"]].drop_duplicates())
        for distance in DISTANCES if conditions > 1 else ():
            fixed, minibatch = (by_cells(table, distance) for table in tables)
            yield (f"{choice}, {distance}", f"{len(objectives)} × {conditions}"), fixed, minibatch


def by_cells(table: pd.DataFrame, distance: str) -> Permuted:
    """Return whether the objective explains more than the data condition, from the mean profiles of cells."""
    runs = table.pivot_table(index=RUN, columns=PART, values="nats", fill_value=0.0)
    cells = runs.groupby(level=["objective", "data", "size"]).mean()
    conditions = [f"{data}, {size}" for _, data, size in cells.index]
    objectives = cells.index.get_level_values("objective").tolist()
    return first_over_second(DISTANCES[distance](cells.to_numpy()), objectives, conditions)


def _whole(table: pd.DataFrame, objectives: tuple[str, ...] = ()) -> pd.DataFrame:
    """Return the runs of data conditions that have every seed of their objectives, and all `objectives`, if given."""
    own = table[table["objective"].isin(objectives)] if objectives else table
    seeds = own.groupby(["data", "size", "objective"])["seed"].nunique().groupby(["data", "size"])
    whole = (seeds.min() == own["seed"].nunique()) & (seeds.size() >= len(objectives))
    return own.merge(whole[whole].index.to_frame(index=False), on=["data", "size"])
