"""The allocation over training, by component and by stack, and whether layers learn at the same times."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isoscope.platform.statistics.synchrony import synchrony
from isoscope.studies.dynamics.allocated_runs import OUTSIDE, SHOWN, AllocatedRun, matrix

GROUPINGS = ("component", "stack")
BINS = 60
"""Points of a curve of the minibatch estimator, over log-spaced spans of updates."""


def course(runs: Sequence[AllocatedRun]) -> pd.DataFrame:
    """Return the validation set's allocation over time: a row per arm, grouping, group and interval.

    A stack is the sum over its layers, without its embeddings. Columns start, update (the interval's ends), rate (nats
    per update), cumulative (nats since the start), and n, the seeds that have the interval; both are means over these
    seeds, with `sd_rate` and `sd_cumulative`.
    """
    rows = []
    for run in runs:
        own = run.allocation[run.allocation["set"] == SHOWN]
        starts = own.drop_duplicates("update").set_index("update")["start"].sort_index()
        lengths = (starts.index - starts).to_numpy(dtype=float)
        for grouping in GROUPINGS:
            sums = matrix(own if grouping == "component" else own[own["layer"] != OUTSIDE], [grouping])
            for group, values in sums.items():
                each = {"start": starts.to_numpy(), "update": starts.index, "cumulative": values.cumsum().to_numpy()}
                each |= {"rate": values.to_numpy() / lengths, "arm": run.arm, "seed": run.seed}
                rows.append(pd.DataFrame(each | {"grouping": grouping, "group": group}))
    keys = ["arm", "grouping", "group", "start", "update"]
    grouped = pd.concat(rows, ignore_index=True).groupby(keys, sort=False)
    named: dict[str, Any] = {"rate": ("rate", "mean"), "cumulative": ("cumulative", "mean"), "n": ("seed", "size")}
    spread: dict[str, Any] = {"sd_rate": ("rate", "std"), "sd_cumulative": ("cumulative", "std")}
    return grouped.agg(**named, **spread).reset_index()


def synchronies(runs: Sequence[AllocatedRun], words: dict[str, str]) -> pd.DataFrame:
    """Return whether a run's layers learn at the same times, per arm, seed and estimator.

    A series is the allocation to a layer of a stack, per update: over the intervals of the validation set, and over
    all updates of the minibatch estimator if there are any. Columns layers, points, peaks (mean per layer), observed
    (share of common peaks), by_chance (see `statistics.synchrony`), word (of `learned`). Runs with a single layer have
    no row.
    """
    rows = []
    for run in runs:
        for estimator, series in _series(run):
            if (found := synchrony(series, seed=run.seed)) is not None:
                row = {"arm": run.arm, "seed": run.seed, "estimator": estimator}
                row |= {"layers": len(series), "points": series.shape[1]}
                rows.append(row | found._asdict() | {"word": words[run.arm]})
    return pd.DataFrame(rows)


def _series(run: AllocatedRun) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Yield estimator and series `[layers, points]` in nats per update."""
    own = run.allocation[run.allocation["set"] == SHOWN]
    lengths = own.drop_duplicates("update").sort_values("update")
    spans = (lengths["update"] - lengths["start"]).to_numpy(dtype=float)
    inside = matrix(own[own["layer"] != OUTSIDE], ["stack", "layer"])
    yield str(own["estimator"].iloc[0]), inside.to_numpy().T / spans
    if len(run.minibatch):
        of_layers = run.minibatch[run.minibatch["layer"] != OUTSIDE]
        yield "minibatch", matrix(of_layers, ["stack", "layer"]).to_numpy().T


def positive(runs: Sequence[AllocatedRun]) -> pd.DataFrame:
    """Return the largest positive allocation to each component, over spans of updates: arm, estimator, component.

    Columns update (the span's end) and value: the largest over the seeds and the updates of the span, 0 where no update
    hurts. `estimator` is minibatch if a run has it, at every update; else the validation set's, in nats per update. An
    update's allocation to a component is the sum over layers and stacks.
    """
    rows = []
    for run in runs:
        if len(run.minibatch):
            estimator, values = "minibatch", matrix(run.minibatch, ["component"])
        else:
            own = run.allocation[run.allocation["set"] == SHOWN]
            spans = own.drop_duplicates("update").set_index("update")
            lengths = pd.Series(spans.index - spans["start"].to_numpy(), index=spans.index)
            values = matrix(own, ["component"]).div(lengths, axis=0)
            estimator = str(own["estimator"].iloc[0])
        updates = values.index.to_numpy()
        ends = np.unique(np.rint(np.geomspace(1, updates.max(), BINS)).astype(int))
        at = ends[np.searchsorted(ends, updates)]
        largest = values.clip(lower=0.0).groupby(at).max().rename_axis(index="update", columns="component")
        rows.append(largest.stack().rename("value").reset_index().assign(arm=run.arm, estimator=estimator))
    keys = ["arm", "estimator", "component", "update"]
    return pd.concat(rows, ignore_index=True).groupby(keys, sort=False)["value"].max().reset_index()
