"""What a study's arms come to at the end of training: figures averaged over their last updates or evaluations."""

from collections.abc import Mapping, Sequence

import pandas as pd

from isoscope.analysis.differences import differences

COLUMNS = ["arm", "seed", "figure", "value", "points"]
GROUPS = ("step/", "validation/", "posthoc/")
"""Of each update, of each evaluation of the validation split, and of maps laid on the test split at the end."""


def averages(curves: pd.DataFrame, *, last: float) -> pd.DataFrame:
    """Mean of each figure of each run over the last share `last` of the steps it was taken at: arm, seed, figure,
    value, and `points`, how many. The start of training (step 0) does not count.

    `curves`: see `analysis.curves`. Figures are those of `GROUPS`, with their group's name.
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
    """Differences of the arms from their references in these figures, where they were taken; see `differences`."""
    shown = averages[averages["figure"].isin(figures)]
    order = {figure: place for place, figure in enumerate(figures)}
    found = differences(shown, against=against, confidence=confidence, power=power)
    return found.sort_values("figure", key=lambda column: column.map(order), kind="stable", ignore_index=True)
