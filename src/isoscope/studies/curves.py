"""Collect metrics by epoch, per run and over seeds."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from isoscope.errors import InputError
from isoscope.outputs import read_output, read_points

CURVES = ["study", "arm", "seed", "epoch", "step", "metric", "value"]
BANDS = ["study", "arm", "metric", "epoch", "mean", "sd", "n"]


def curves(outputs: Sequence[Path]) -> pd.DataFrame:
    """Return all metric points of the finished runs in `outputs`: study, arm, seed, epoch, step, metric, value.

    Rows keep the order of `outputs`, so the first arm given stays first. A point without an epoch has a missing epoch.
    Raises `InputError` if a folder is no finished run, or if two folders hold the same arm and seed.
    """
    seen: dict[tuple[str, str, int], Path] = {}
    rows = []
    for folder in outputs:
        output = read_output(folder)
        run = output.run
        other = seen.setdefault(run[:3], folder)
        if other is not folder:
            raise InputError(f"{folder}: arm {run.arm}, seed {run.seed} is also in {other}; give each once")
        for point in read_points(output):
            rows.append((*run[:3], point.get("epoch"), point.get("step"), point["name"], point["value"]))
    table = pd.DataFrame(rows, columns=CURVES)
    return table.astype({"seed": "int64", "epoch": "Int64", "step": "Int64", "value": "float64"})


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
