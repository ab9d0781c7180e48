"""Does the objective or the data decide which parts lower the loss? Tables of the runs of dynamics_data.py."""

from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np
import pandas as pd
from dynamics_claims import bounds, verdict_cells
from dynamics_stored import CONFIDENCE, Lines, called, head, interval, metrics, number, order, stored

from isoscope.statistics.paired import Interval
from isoscope.statistics.permutation_manova import sources
from isoscope.studies.dynamics.objective_or_data import DISTANCES, ONE_STACK, Decided, objective_or_data
from isoscope.studies.dynamics.profiles import PART, RUN

MARGIN = 0.05
CHOICES: Mapping[str, tuple[str, ...]] = {"all": ("masked", "causal", "translation"), "masked and causal": ONE_STACK}
CALLED = {"all": "all", "masked and causal": "MLM and CLM"}
ESTIMATORS = ("nats", "minibatch")
"""Columns of the stored profiles: the fixed set, and the minibatch estimator."""


def every(estimator: str = "nats") -> pd.DataFrame:
    """Return the profiles of all stored runs, with the column study; `nats` is the estimator's."""
    table = stored("data", "profiles")
    return table.assign(study=table["arm"].str.partition("/")[0], nats=table[estimator])[["study", *RUN, *PART, "nats"]]


@cache
def decided(estimator: str) -> Decided:
    """Return the comparison that `isoscope compare` makes of several studies, of conditions that have every seed."""
    table = _whole(every(estimator))
    return objective_or_data({str(study): own for study, own in table.groupby("study")}, confidence=CONFIDENCE)


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


def shares_of_variance() -> Lines:
    """Yield the share of each source: on the fixed set with its interval over seeds, and by the minibatch estimator."""
    keys = ["objectives", "distance", "source"]
    fixed, minibatch = (decided(name).shares.set_index(keys) for name in ESTIMATORS)
    columns = ("runs", "cells", "df", "share", "interval", "p (Holm)", "minibatch estimator")
    yield from head("objectives", "distance", "source", *columns, left=3)
    for (objectives, distance, source), row in fixed.iterrows():
        other = minibatch.loc[(objectives, distance, source)]
        counts = {name: int(row[name]) for name in ("runs", "cells", "of", "df")}
        cells = (f"{counts['runs']}", f"{counts['cells']} of {counts['of']}", f"{counts['df']}", number(row["share"]))
        limits = None if pd.isna(row["low"]) else Interval(row["low"], row["high"])
        rest = (bounds(limits).replace("+", ""), _chance(row["p_holm"]), number(other["share"]))
        yield f"| {CALLED[objectives]} | {distance} | {source} | {' | '.join((*cells, *rest))} |"


def told() -> Lines:
    """Yield how often a factor is told from a profile whose level of another factor was not in the training data."""
    keys = ["objectives", "told", "left_out"]
    fixed, minibatch = (decided(name).told.set_index(keys) for name in ESTIMATORS)
    columns = ("runs", "accuracy", "chance", "p (Holm)", "minibatch estimator")
    yield from head("objectives", "told", "left out", *columns, left=3)
    for (objectives, told_, left_out), row in fixed.iterrows():
        other = minibatch.loc[(objectives, told_, left_out)]["accuracy"]
        cells = (f"{int(row['runs'])}", number(row["accuracy"], 2), number(row["chance"], 2), _chance(row["p_holm"]))
        yield f"| {CALLED[objectives]} | {told_} | {left_out} | {' | '.join((*cells, number(other, 2)))} |"


def decides() -> Lines:
    """Yield the claim that the objective explains more of the variance of profiles than the data condition does.

    A value per seed: the difference of the two shares among the runs of this seed.
    """
    found = list(_differences())
    columns = ("seeds", "mean", "over seeds", "p (Holm)", "detectable", "verdict", "minibatch estimator")
    yield from head("share of the objective − of the data condition", *columns)
    cells = verdict_cells([list(fixed.values()) for _, fixed, _ in found], [MARGIN] * len(found))
    for (text, _, minibatch), (about, rest) in zip(found, cells, strict=True):
        yield f"| {text} | {' | '.join((*about, *rest, interval(list(minibatch.values()))))} |"


def _differences() -> Iterator[tuple[str, dict[int, float], dict[int, float]]]:
    """Yield per choice of objectives and distance: its name, and the difference by seed of either estimator.

    Without a choice that has fewer than two conditions with all its runs.
    """
    for choice, objectives in CHOICES.items():
        tables = [_whole(every(name), objectives) for name in ESTIMATORS]
        if len(tables[0][["data", "size"]].drop_duplicates()) < 2:
            continue
        for distance in DISTANCES:
            fixed, minibatch = (differences(table, distance) for table in tables)
            yield f"{CALLED[choice]}, {distance}", fixed, minibatch


def _whole(table: pd.DataFrame, objectives: tuple[str, ...] = ()) -> pd.DataFrame:
    """Return the runs of data conditions that have every seed of their objectives, and all `objectives`, if given."""
    own = table[table["objective"].isin(objectives)] if objectives else table
    seeds = own.groupby(["data", "size", "objective"])["seed"].nunique().groupby(["data", "size"])
    whole = (seeds.min() == own["seed"].nunique()) & (seeds.size() >= len(objectives))
    return own.merge(whole[whole].index.to_frame(index=False), on=["data", "size"])


def differences(table: pd.DataFrame, distance: str) -> dict[int, float]:
    """Return seed → share of the objective minus share of the data condition, among the runs of the seed."""
    runs = table.pivot_table(index=RUN, columns=PART, values="nats", fill_value=0.0)
    found = {}
    for seed, own in runs.groupby(level="seed"):
        index = own.index.to_frame()
        condition = index["data"] + ", " + index["size"].astype(str)
        factors = {"objective": index["objective"].tolist(), "condition": condition.tolist()}
        explained = sources(DISTANCES[distance](own.to_numpy()), factors, permutations=0)
        by = {one.name: one.share for one in explained}
        found[int(seed)] = by["objective"] - by["condition"]
    return found


def _chance(p: float) -> str:
    return number(np.nan if p is None else p)
