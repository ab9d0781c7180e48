"""The allocation to attention heads, summed over training; heads of different seeds are matched by rank."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isoscope.studies.dynamics.allocated_runs import OUTSIDE, SHOWN, AllocatedRun

NORMALISATIONS = ("raw", "sum-abs", "max-abs", "min-max")


def normalised(values: NDArray[np.float64], kind: str) -> NDArray[np.float64]:
    """Return all head values of a model, normalised together.

    `raw`: as they are; `sum-abs`: over the sum of magnitudes; `max-abs`: over the largest magnitude; `min-max`: from 0
    (smallest, helps most) to 1. NaN if the divisor is 0.
    """
    low = values.min() if kind == "min-max" else 0.0
    divisor = {
        "raw": 1.0,
        "sum-abs": np.abs(values).sum(),
        "max-abs": np.abs(values).max(),
        "min-max": values.max() - values.min(),
    }[kind]
    return (values - low) / divisor if divisor else np.full(values.shape, np.nan)


def head_shares(runs: Sequence[AllocatedRun]) -> pd.DataFrame:
    """Return the validation set's allocation to heads: arm, stack, layer, rank, normalisation, value, sd, n.

    A head's value sums its rows of query, key and value, and its columns of `out`. Normalisation is within a run, over
    all its heads. Head 3 of a seed is not head 3 of another, so the heads of a layer are sorted by allocation (rank 1
    helps most), and each rank is averaged over seeds. Without heads in the tables there are no rows.
    """
    parts = []
    for run in runs:
        own = run.allocation[(run.allocation["set"] == SHOWN) & (run.allocation["head"] != OUTSIDE)]
        if own.empty:
            continue
        sums = own.groupby(["stack", "layer", "head"], sort=False)["value"].sum().reset_index()
        ranks = sums.groupby(["stack", "layer"])["value"].rank(method="first").astype(int)
        for kind in NORMALISATIONS:
            values = normalised(sums["value"].to_numpy(), kind)
            parts.append(sums.assign(rank=ranks, value=values, arm=run.arm, normalisation=kind))
    keys = ["arm", "stack", "layer", "rank", "normalisation"]
    if not parts:
        return pd.DataFrame(columns=[*keys, "value", "sd", "n"])
    grouped = pd.concat(parts, ignore_index=True).groupby(keys, sort=False)["value"]
    return grouped.agg(value="mean", sd="std", n="size").reset_index()
