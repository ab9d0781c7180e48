"""The stored runs behind dynamics.md: names and order of their arms, and their shares of the change of the loss.

A part is a folder of docs/results/dynamics/ with the tables that `isoscope analyse` makes, for each run by itself.
`folds` has sums over training by fold of the sentences, `minibatch` the sums of the minibatch estimator.
"""

from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd
from per_run import kept, stored

from isoscope.studies.dynamics.allocated_runs import BLOCK, SHOWN

OBJECTIVES = {"masked": "MLM", "causal": "CLM", "translation": "MT", "causal_part": "CLM"}
FUSIONS = ("additive", "conv2d", "fft")
ATTENTION, FEED_FORWARD = ("query", "key", "value", "out"), ("W1", "W2")
COMPONENTS = ("emb", "pos", *ATTENTION, *FEED_FORWARD, "LayerNorm", "other")
PARTS = {
    "own": "own rate",
    "common": "common rate",
    "dense": "own rate, dense",
    "depth": "half of the layers",
    "depth_common": "half of the layers, common rate",
    "part": "15 % of the loss",
    "more": "6.7 × the sentences",
    "fusions": "own rate",
}


def of_part(part: str, table: str) -> pd.DataFrame:
    """Return a stored table of a part's runs, ordered by arm and seed."""
    return stored(f"dynamics/{part}/{table}.parquet").sort_values(["arm", "seed"], kind="stable")


def on_fixed_set(part: str, table: str) -> pd.DataFrame:
    """Return the rows of a stored table that are measured on the fixed validation sentences."""
    found = of_part(part, table)
    return found[found["set"] == SHOWN]


def parts() -> list[str]:
    """Return the parts that have stored runs."""
    return [name for name in PARTS if kept(f"dynamics/{name}.csv")]


def called(arm: str) -> str:
    """Return an arm's name on the page, such as `CLM, conv2d`."""
    objective, _, fusion = arm.partition("-")
    return OBJECTIVES[objective] + f", {fusion}" * (fusion != "additive")


def names(arms: Iterable[str]) -> dict[str, str]:
    """Return arm → name on the page, in its order."""
    known = {*arms}
    ordered = (f"{objective}-{fusion}" for fusion in FUSIONS for objective in OBJECTIVES)
    return {arm: called(arm) for arm in ordered if arm in known}


def by_arm(table: pd.DataFrame) -> Iterable[tuple[str, pd.DataFrame]]:
    """Yield arms in the order of the page, each with its rows."""
    return ((arm, table[table["arm"] == arm]) for arm in names(table["arm"]))


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
        of_folds, total, of_batch = own.set_index(BLOCK)[columns], own["value"].sum(), batch.loc[(arm, seed)]
        share = of_folds.mean(axis=1) / total
        fixed = (of_folds - share.to_numpy()[:, None] * of_folds.sum().to_numpy()) / total
        found.setdefault(arm, {})[int(seed)] = Shares(fixed.add(share, axis=0), of_batch / of_batch["nats"].sum())
    return found


def share_rows(part: str) -> pd.DataFrame:
    """Return the shares as rows: stack, layer, component, arm, seed, estimator, value."""
    found = []
    for arm, runs in shares(part).items():
        for seed, one in runs.items():
            both = {"fixed set": one.fixed.mean(axis=1), "minibatch": one.minibatch["nats"]}
            found.append(pd.DataFrame(both).reset_index().assign(arm=arm, seed=seed))
    return pd.concat(found, ignore_index=True).melt([*BLOCK, "arm", "seed"], var_name="estimator")


def summed(table: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """Return the sums of `value` over all columns but `keys`; 0 for a value of the last key that a run lacks."""
    sums = table.groupby([*keys])["value"].sum().unstack(fill_value=0.0)
    return sums.stack().rename("value").reset_index()
