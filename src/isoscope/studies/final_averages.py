"""Average each metric over the last updates or evaluations of training, by arm."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from isoscope.statistics.differences import differences

COLUMNS = ["arm", "seed", "figure", "value", "points"]
MOST = 60
"""Maximum points of a curve; neighbouring updates are averaged."""
GROUPS = ("step/", "validation/", "posthoc/")
"""Metrics of each update, of each evaluation on the validation split, and of post-hoc maps on the test split."""


def averages(curves: pd.DataFrame, *, last: float) -> pd.DataFrame:
    """Return each run's mean of each metric over the last share `last` of its points: arm, seed, figure, value, points.

    `figure` is the metric's name with its group (`GROUPS`); `points` is the number of averaged points. The start of
    training (step 0) does not count. `curves`: see `studies.curves`.
    """
    rows = curves[curves["metric"].str.startswith(GROUPS) & (curves["step"] > 0)]
    found = []
    for (arm, seed, metric), points in rows.groupby(["arm", "seed", "metric"], sort=False):
        values = points.sort_values("step")["value"]
        kept = values.iloc[-max(1, round(last * len(values))) :]
        found.append((arm, seed, metric, float(kept.mean()), len(kept)))
    return pd.DataFrame(found, columns=COLUMNS)


def compared(
    averages: pd.DataFrame, figures: Sequence[str], *, against: Mapping[str, str], confidence: float, power: float
) -> pd.DataFrame:
    """Return the arms' differences from their references in these metrics, if measured; see `differences`."""
    shown = averages[averages["figure"].isin(figures)]
    order = {figure: place for place, figure in enumerate(figures)}
    found = differences(shown, against=against, confidence=confidence, power=power)
    return found.sort_values("figure", key=lambda column: column.map(order), kind="stable", ignore_index=True)


def thinned(curves: pd.DataFrame, most: int = MOST) -> pd.DataFrame:
    """Average each run's points over spans of updates: at most `most` points per metric, each at its span's end."""
    parts = [
        _thinned(rows, most).assign(arm=arm, metric=metric)
        for (arm, metric), rows in curves.groupby(["arm", "metric"], sort=False)
    ]
    columns = ["arm", "seed", "step", "metric", "value"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else curves[columns]


def _thinned(rows: pd.DataFrame, most: int) -> pd.DataFrame:
    steps = np.sort(rows["step"].unique())
    if len(steps) <= most:
        return rows[["seed", "step", "value"]]
    width = -(-len(steps) // most)
    ends = steps[np.minimum(np.arange(len(steps)) // width * width + width - 1, len(steps) - 1)]
    spans = rows.assign(step=rows["step"].map(dict(zip(steps.tolist(), ends.tolist(), strict=True))))
    return spans.groupby(["seed", "step"], sort=False)["value"].mean().reset_index()
