"""The allocation over training, by component, stack and slice of tokens; do layers learn at the same times?"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from isoscope.platform.results.paired_comparison import Arms
from isoscope.studies.curves import mean_over_seeds
from isoscope.studies.dynamics.allocated_runs import (
    OUTSIDE,
    SHOWN,
    AllocatedRun,
    matrix,
    read_table,
)
from isoscope.studies.dynamics.sums import EVERY
from isoscope.studies.dynamics.synchrony import synchrony

GROUPINGS = ("component", "stack")
BINS = 60
"""Points of a curve of the minibatch estimator, over log-spaced spans of updates."""


def course(runs: Sequence[AllocatedRun]) -> pd.DataFrame:
    """Return the validation set's allocation over time: a row per arm, grouping, group and interval.

    A stack is the sum over its layers, without its embeddings. Columns start, update (the interval's ends), rate (nats
    per update), cumulative (nats since the start), and n, the seeds that have the interval; both are means over these
    seeds, with `sd_rate` and `sd_cumulative`.
    """
    parts = []
    for run in runs:
        for grouping in GROUPINGS:
            own = run.shown if grouping == "component" else run.shown[run.shown["layer"] != OUTSIDE]
            sums = matrix(own, [grouping]).rename_axis(columns="group")
            rates = sums.div(run.starts.index - run.starts, axis=0)
            long = pd.concat({"cumulative": sums.cumsum().unstack(), "rate": rates.unstack()}, axis=1).reset_index()
            about = {"arm": run.arm, "seed": run.seed, "grouping": grouping}
            parts.append(long.assign(start=long["update"].map(run.starts), **about))
    keys = ["arm", "grouping", "group", "start", "update"]
    grouped = pd.concat(parts, ignore_index=True).groupby(keys, sort=False)
    return grouped.agg(
        rate=("rate", "mean"),
        cumulative=("cumulative", "mean"),
        n=("seed", "size"),
        sd_rate=("rate", "std"),
        sd_cumulative=("cumulative", "std"),
    ).reset_index()


def rates(run: AllocatedRun, along: Sequence[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield estimator and nats per update, a row per interval or update: of the shown set, then of the minibatch's."""
    lengths = run.starts.index - run.starts
    yield str(run.shown["estimator"].iloc[0]), matrix(run.shown, along).div(lengths, axis=0)
    if len(run.minibatch):
        yield "minibatch", matrix(run.minibatch, along)


def synchronies(runs: Sequence[AllocatedRun], words: dict[str, str]) -> pd.DataFrame:
    """Return whether a run's layers learn at the same times, per arm, seed and estimator.

    A series is the allocation to a layer of a stack, per update: over the intervals of the validation set, and over
    all updates of the minibatch estimator if there are any. Columns layers, points, peaks (mean per layer), observed
    (share of common peaks), by_chance (see `synchrony`), word (of `learned`). Runs with a single layer have
    no row.
    """
    rows = []
    for run in runs:
        for estimator, values in rates(run, ["stack", "layer"]):
            series = values.loc[:, values.columns.get_level_values("layer") != OUTSIDE].to_numpy().T
            if (found := synchrony(series, seed=run.seed)) is not None:
                row = {"arm": run.arm, "seed": run.seed, "estimator": estimator}
                row |= {"layers": len(series), "points": series.shape[1]}
                rows.append(row | found._asdict() | {"word": words[run.arm]})
    return pd.DataFrame(rows)


def positive(runs: Sequence[AllocatedRun]) -> pd.DataFrame:
    """Return the largest positive allocation to each component, over spans of updates: arm, estimator, component.

    Columns update (the span's end) and value: the largest over the seeds and the updates of the span, 0 where no update
    hurts. `estimator` is minibatch if a run has it, at every update; else the validation set's, in nats per update. An
    update's allocation to a component is the sum over layers and stacks.
    """
    parts = []
    for run in runs:
        *_, (estimator, values) = rates(run, ["component"])
        updates = values.index.to_numpy()
        ends = np.unique(np.rint(np.geomspace(1, updates.max(), BINS)).astype(int))
        at = ends[np.searchsorted(ends, updates)]
        largest = values.clip(lower=0.0).groupby(at).max().rename_axis(index="update", columns="component")
        parts.append(largest.stack().rename("value").reset_index().assign(arm=run.arm, estimator=estimator))
    keys = ["arm", "estimator", "component", "update"]
    return pd.concat(parts, ignore_index=True).groupby(keys, sort=False)["value"].max().reset_index()


SLICED = ("slices.parquet", "slices_closure.parquet")
"""What `training.slices` writes into a run's output (`isoscope.training.observers.slices` has the columns)."""
SLICE = ["frequency", "context"]
LEAST = 0.05
"""Nats per token: a slice whose loss changes less has no shares."""


def sliced(arms: Arms, confidence: float) -> dict[str, pd.DataFrame]:
    """Return the tables of the runs that have slices, by name; none if no run has them. Validation set only.

    `slices`: a row per arm, slice and component (summed over layers and stacks; `all`: the whole model).

    - tokens: the slice's share of predicted tokens; before, after: its loss in nats per token of the slice; half: the
      first interval's end by which half of the change of its loss was reached. Means over seeds; n: seeds.
    - share: of the change of the slice's loss, with the t interval over seeds (low, high); empty where the loss changes
      by less than `LEAST` in a seed. Shares of the components sum to 1 up to the gap. Positive helps if the loss fell.
    - intervals, open: intervals of all seeds, and how many of them are beyond their bound.

    `slices_course`: a row per arm, slice, component and update: share, cumulative, mean over seeds.
    """
    found = [one for arm, runs in arms.items() for seed in runs for one in _slices(arms, arm, seed)]
    if not found:
        return {}
    facts, long = pd.DataFrame([one for one, _ in found]), pd.concat([shares for _, shares in found], ignore_index=True)
    keys = ["arm", *SLICE, "component", "update"]
    means = long.groupby(keys, sort=False)["share"].agg(lambda shares: shares.mean(skipna=False))
    return {"slices": _totals(facts, long, confidence), "slices_course": means.dropna().reset_index()}


def _slices(arms: Arms, arm: str, seed: int) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield the slices of a run's validation set: facts, and shares of the change of its loss by component and update.

    Shares are cumulative; the component `EVERY` is the change of the loss so far.
    """
    folder = arms[arm][seed].output.folder
    if not all((folder / name).is_file() for name in SLICED):
        return
    values, closure = (read_table(folder / name).query(f"set == '{SHOWN}'") for name in SLICED)
    by_slice = dict(list(values.groupby(SLICE, sort=False)))
    for key, own in closure.groupby(SLICE, sort=False):
        own = own.sort_values("update").set_index("update")
        tokens, before, after = own["tokens"].iloc[0], own["before"].iloc[0], own["after"].iloc[-1]
        change = after - before if abs(after - before) >= LEAST * tokens else float("nan")
        sums = by_slice[key].groupby(["update", "component"])["value"].sum().unstack("component").cumsum()
        shares = sums.assign(**{EVERY: own["after"] - before}) / change
        reached = shares.index[shares[EVERY] >= 0.5]
        about: dict[str, Any] = {"arm": arm, "seed": seed} | dict(zip(SLICE, key, strict=True))
        facts = {"tokens": tokens, "before": before / tokens, "after": after / tokens}
        facts |= {"half": float(reached[0]) if len(reached) else float("nan")}
        facts |= {"intervals": len(own), "open": int((~own["closed"]).sum())}
        long = shares.reset_index().melt("update", var_name="component", value_name="share")
        yield about | facts, long.assign(**about)


def _totals(facts: pd.DataFrame, long: pd.DataFrame, confidence: float) -> pd.DataFrame:
    keys = ["arm", *SLICE]
    last = long[long["update"] == long.groupby(["arm", "seed"])["update"].transform("max")]
    rows = []
    for key, own in facts.groupby(keys, sort=False):
        means = {name: own[name].mean(skipna=False) for name in ("tokens", "before", "after", "half")}
        means |= {name: int(own[name].sum()) for name in ("intervals", "open")}
        of_slice = last[(last[keys] == list(key)).all(axis=1)]
        for component, shares in of_slice.groupby("component", sort=False)["share"]:
            found = mean_over_seeds(shares, confidence)
            share = {"share": found.pop("mean")} | found
            rows.append(dict(zip(keys, key, strict=True)) | {"component": component, "n": len(own)} | means | share)
    return pd.DataFrame(rows)
