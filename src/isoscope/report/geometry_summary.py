"""The first table of the page of `isoscope geometry`: a few figures of each checkpoint's last layer, with what to hold
them against.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from isoscope.report.geometry_sections import KINDS

SHOWN = {
    "a_1": "a₁",
    "effective_rank": "Effective rank",
    "avg_sim": "Mean cosine",
    "linear_separability": "Linear accuracy",
}
"""Figures of all points of a cell, so that one n is that of them all."""


def summary(tables: Mapping[str, pd.DataFrame]) -> list[dict[str, Any]]:
    """A row for each checkpoint and kind of sentence vector at the last layer: checkpoint, vectors, layer, n, d, and by
    figure its value beside that of the random twin and of isotropic noise (None: no number).

    Figures that were not measured are left out, and there are no rows where none was.
    """
    if "geometry" not in tables:
        return []
    table = tables["geometry"]
    table = table[(table["vectors"] != "words") & table["figure"].isin(list(SHOWN))]
    table = table[table["layer"] == table.groupby("checkpoint")["layer"].transform("max")]
    found = []
    for (checkpoint, vectors), own in table.groupby(["checkpoint", "vectors"], sort=False):
        trained, twin = (own[own["step"].isna() == other].set_index("figure") for other in (False, True))
        row = {"checkpoint": checkpoint, "vectors": vectors, "called": KINDS[str(vectors)]}
        row |= {name: int(trained[name].iloc[0]) for name in ("layer", "n", "d")}
        for figure in SHOWN:
            if figure in trained.index:
                beside = twin["value"].get(figure)
                row[figure] = {
                    "value": number(trained.loc[figure, "value"]),
                    "twin": number(beside),
                    "noise": number(trained.loc[figure, "baseline"]),
                }
        found.append(row)
    return found


def number(value: Any) -> float | None:
    """A number of a table, None where it is none."""
    return None if value is None or not np.isfinite(value) else float(value)
