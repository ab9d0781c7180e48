"""The stored runs behind dynamics.md, and their shares of the change of the loss.

A part is a folder of docs/results/dynamics/ with the tables that `isoscope analyse` makes, for each run by itself.
`folds` has sums over training by fold of the sentences, `minibatch` the sums of the minibatch estimator.
"""

from typing import NamedTuple

import pandas as pd
from per_run import stored

from isoscope.studies.dynamics.allocated_runs import BLOCK, SHOWN

OBJECTIVES = {"masked": "MLM", "causal": "CLM", "translation": "MT", "causal_part": "CLM"}
ATTENTION, FEED_FORWARD = ("query", "key", "value", "out"), ("W1", "W2")


def of_part(part: str, table: str) -> pd.DataFrame:
    """Return a stored table of a part's runs, ordered by arm and seed."""
    return stored(f"dynamics/{part}/{table}.parquet").sort_values(["arm", "seed"], kind="stable")


def on_fixed_set(part: str, table: str) -> pd.DataFrame:
    """Return the rows of a stored table that are measured on the fixed validation sentences."""
    found = of_part(part, table)
    return found[found["set"] == SHOWN]


def called(arm: str) -> str:
    """Return an arm's name on the page."""
    return OBJECTIVES[arm.partition("-")[0]]


class Shares(NamedTuple):
    """A run's shares of the change of the loss: on the fixed set, by fold `[groups, 8]`; by the minibatch estimator."""

    fixed: pd.DataFrame
    minibatch: pd.DataFrame


def shares(part: str) -> dict[str, dict[int, Shares]]:
    """Return arm → seed → shares, rows (stack, layer, component).

    A share is an allocation over the sum of all allocations of the run; a positive share helps. A fold's number is
    `share + (fold − share · fold's total) / total`: the ratio's linear form (as `training.allocation.over_folds`,
    Cochran 1977). The folds' mean is the share of the whole set, and what moves all groups of a fold alike is no noise.
    """
    folds, batch = on_fixed_set(part, "folds"), of_part(part, "minibatch").set_index(["arm", "seed", *BLOCK])[["nats"]]
    columns = [name for name in folds if name.startswith("fold_")]
    found: dict[str, dict[int, Shares]] = {}
    for (arm, seed), own in folds.groupby(["arm", "seed"], sort=False):
        of_folds, total, of_batch = own.set_index(BLOCK)[columns], own["value"].sum(), batch.xs((arm, seed))
        share = of_folds.mean(axis=1) / total
        fixed = (of_folds - share.to_numpy()[:, None] * of_folds.sum().to_numpy()) / total
        found.setdefault(arm, {})[int(seed)] = Shares(fixed.add(share, axis=0), of_batch / of_batch["nats"].sum())
    return found
