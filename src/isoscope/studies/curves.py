"""Collect metrics by epoch, per run and over seeds, and average each metric over the end of training."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isoscope.base.errors import InputError
from isoscope.platform.figures.form import in_order
from isoscope.platform.outputs import read_output
from isoscope.platform.runs.output_files import read_metrics
from isoscope.platform.statistics.differences import differences
from isoscope.platform.statistics.paired import paired_t

COLUMNS = ["arm", "seed", "metric", "value", "points"]
MOST = 60
"""Maximum points of a curve; neighbouring updates are averaged."""
GROUPS = ("step/", "validation/", "posthoc/")
"""Metrics of each update, of each evaluation on the validation split, and of post-hoc maps on the test split."""


def averages(curves: pd.DataFrame, *, last: float) -> pd.DataFrame:
    """Return each run's mean of each metric over the last share of its updates: arm, seed, metric, value, points.

    `metric` is the metric's name with its group (`GROUPS`). The updates are those of the run at which any run has the
    metric, without the start of training (step 0). `points` is the number of averaged points, without those that are no
    number. NaN: the run has no point there, but another seed of its arm has the metric. `curves`: see `studies.curves`.
    """
    rows = curves[curves["metric"].str.startswith(GROUPS) & (curves["step"] > 0)]
    rows = rows.assign(group=rows["metric"].str.split("/").str[0])
    reached = rows.groupby(["arm", "seed", "group"])["step"].agg(set)
    seeds = {arm: [*dict.fromkeys(own)] for arm, own in rows.groupby("arm", sort=False)["seed"]}
    taken = rows.groupby("metric")["step"].agg(set)
    found = []
    for (arm, group, metric), own in rows.groupby(["arm", "group", "metric"], sort=False):
        for seed in seeds[arm]:
            # A metric without a finite value is not recorded: its run's last points may be long before its end.
            steps = sorted(taken[metric] & reached.get((arm, seed, group), set()))
            kept = steps[-max(1, round(last * len(steps))) :]
            values = own.loc[(own["seed"] == seed) & own["step"].isin(kept), "value"]
            found.append((arm, seed, metric, float(values.mean()), int(values.count())))
    return pd.DataFrame(found, columns=COLUMNS)


def compared(
    averages: pd.DataFrame, metrics: Sequence[str], *, against: Mapping[str, str], confidence: float, power: float
) -> pd.DataFrame:
    """Return the arms' differences from their references in these metrics, if measured; see `differences`."""
    shown = averages[averages["metric"].isin(metrics)]
    found = differences(shown, against=against, confidence=confidence, power=power)
    return in_order(found, "metric", metrics).reset_index(drop=True)


def thinned(curves: pd.DataFrame, most: int = MOST) -> pd.DataFrame:
    """Average each run's points over spans of updates: at most `most` points per metric, each at its span's end."""
    columns = ["arm", "seed", "step", "metric", "value"]
    parts = []
    for (arm, metric), rows in curves.groupby(["arm", "metric"], sort=False):
        steps = np.sort(rows["step"].unique())
        if len(steps) > most:
            width = -(-len(steps) // most)
            ends = steps[np.minimum(np.arange(len(steps)) // width * width + width - 1, len(steps) - 1)]
            spans = rows.assign(step=rows["step"].map(dict(zip(steps.tolist(), ends.tolist(), strict=True))))
            rows = spans.groupby(["seed", "step"], sort=False)["value"].mean().reset_index()
        parts.append(rows.assign(arm=arm, metric=metric)[columns])
    return pd.concat(parts, ignore_index=True) if parts else curves[columns]


CURVES = ["study", "arm", "seed", "epoch", "step", "metric", "value"]
SEEDS = ["study", "arm", "seed", "metric", "epoch", "value"]
BANDS = ["study", "arm", "metric", "epoch", "mean", "sd", "n"]


def curves(outputs: Sequence[Path]) -> pd.DataFrame:
    """Return all metric points of the finished runs in `outputs`: study, arm, seed, epoch, step, metric, value.

    Rows keep the order of `outputs`, so the first arm given stays first. A point without an epoch has a missing epoch.
    Raises `InputError` if a folder is no finished run.
    """
    rows = [
        (*output.run[:3], point.get("epoch"), point.get("step"), point["name"], point["value"])
        for output in map(read_output, outputs)
        for point in read_metrics(output.folder)
    ]
    table = pd.DataFrame(rows, columns=CURVES)
    return table.astype({"seed": "int64", "epoch": "Int64", "step": "Int64", "value": "float64"})


def drawn(metrics: Iterable[str]) -> tuple[str, str]:
    """Return the two metrics of learning curves: the first validation metric other than the loss, and the loss.

    The loss of an alignment is the sum of its error and its weighted anchor, so these two are drawn.
    """
    names = [str(name).removeprefix("validation/") for name in metrics if str(name).startswith("validation/")]
    if {"error", "moved"} <= {*names}:
        return "error", "moved"
    return next((name for name in names if name != "loss"), "score"), "loss"


def seeds(curves: pd.DataFrame) -> pd.DataFrame:
    """Return each seed's validation points of the `drawn` metrics: study, arm, seed, metric, epoch, value.

    A value that is not finite is missing.
    """
    names = [f"validation/{name}" for name in drawn(curves["metric"])]
    points = curves[curves["epoch"].notna() & curves["metric"].isin(names)][SEEDS].reset_index(drop=True)
    return points.assign(value=points["value"].where(np.isfinite(points["value"])))


def bands(curves: pd.DataFrame) -> pd.DataFrame:
    """Return mean and standard deviation over seeds at each epoch: study, arm, metric, epoch, mean, sd, n.

    `n` counts the seeds that reached the epoch. A run that stopped early is not padded, so `n` may fall along a curve.
    `sd` divides by n − 1 and is missing for a single seed. If a value is not finite, mean and sd are missing.
    Raises `InputError` if a run has two values of a metric at an epoch.
    """
    points = curves[curves["epoch"].notna()]
    twice = points.duplicated(["study", "arm", "seed", "metric", "epoch"])
    if twice.any():
        at = points[twice].iloc[0]
        raise InputError(f"{at.study}/{at.arm}/seed-{at.seed}: two values of {at.metric} at epoch {at.epoch}")
    points = points.assign(value=points["value"].where(np.isfinite(points["value"])))
    order = points.drop_duplicates(["study", "arm", "metric"])[["study", "arm", "metric"]]
    groups = points.groupby(["study", "arm", "metric", "epoch"], sort=True)["value"]
    table = groups.agg(
        mean=lambda values: values.mean(skipna=False), sd=lambda values: values.std(ddof=1, skipna=False), n="size"
    ).reset_index()
    return order.merge(table, on=["study", "arm", "metric"])[BANDS]


def mean_over_seeds(values: Iterable[float], confidence: float) -> dict[str, Any]:
    """Return mean, low and high: the t interval, None below three seeds."""
    found = paired_t([*values], confidence=confidence)
    low, high = found.interval or (None, None)
    return {"mean": found.mean, "low": low, "high": high}
