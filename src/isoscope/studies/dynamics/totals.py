"""Sums of the allocation over training, by block, component and stack; closure of each run."""

from collections.abc import Iterable, Sequence

import pandas as pd

from isoscope.studies.dynamics.allocated_runs import BLOCK, AllocatedRun, change, mean_over_seeds

LEVELS: dict[str, list[str]] = {"block": BLOCK, "component": ["stack", "component"], "stack": ["stack"], "all": []}
"""Level → the columns that are not summed over."""
EVERY = "all"
"""Stack or component of a row that sums over all of them."""


def allocated(runs: Sequence[AllocatedRun], confidence: float) -> pd.DataFrame:
    """Return the allocation summed over training, per arm and set.

    Columns arm, set, level, stack, layer, component, parameters, n (seeds), and with t intervals over seeds (`low_…`,
    `high_…`; none below three seeds): `nats`; `per_parameter`, in nats per million parameters; `share` of the change
    of the set's loss, so that the shares of a level sum to 1 up to the run's gap. Where the loss did not change, the
    shares are NaN.
    """
    parts = []
    for run in runs:
        for name, own in run.allocation.groupby("set", sort=False):
            whole = change(run, name)
            for level, columns in LEVELS.items():
                sums = _sums(own, columns).assign(level=level, arm=run.arm, set=name, seed=run.seed)
                sums["share"] = sums["nats"] / whole if whole else float("nan")
                sums["per_parameter"] = 1e6 * sums["nats"] / sums["parameters"]
                parts.append(sums)
    table = pd.concat(parts, ignore_index=True)
    keys = ["arm", "set", "level", *BLOCK]
    rows = []
    for key, group in table.groupby(keys, sort=False):
        row = dict(zip(keys, key, strict=True)) | {"parameters": int(group["parameters"].iloc[0]), "n": len(group)}
        for quantity in ("nats", "per_parameter", "share"):
            found = mean_over_seeds(group[quantity], confidence)
            row |= {quantity: found["mean"], f"low_{quantity}": found["low"], f"high_{quantity}": found["high"]}
        rows.append(row)
    return pd.DataFrame(rows)


def _sums(own: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return nats and single parameters per group of `columns`; the other columns of a block say `EVERY`, or -1."""
    first = own[own["update"] == own["update"].min()]
    if not columns:
        sums = pd.DataFrame({"nats": [own["value"].sum()], "parameters": [first["parameters"].sum()]})
    else:
        sums = own.groupby(list(columns), sort=False)["value"].sum().rename("nats").reset_index()
        counts = first.groupby(list(columns), sort=False)["parameters"].sum().reset_index()
        sums = sums.merge(counts, on=list(columns))
    missing = {"stack": EVERY, "component": EVERY, "layer": -1}
    return sums.assign(**{name: value for name, value in missing.items() if name not in columns})


def closed(runs: Iterable[AllocatedRun]) -> pd.DataFrame:
    """Return how well each run's allocation sums to the change of its loss, per arm, seed and set.

    Columns estimator, intervals, `open` (intervals beyond their bound), share_closed, worst (largest |gap| over its
    bound, of single intervals), helping (share of single parameters that help, of those that moved, mean over
    intervals), before, after, change, allocated, gap, bound, and total_closed, of all intervals together.
    """
    rows = []
    for run in runs:
        for name, own in run.closure.groupby("set", sort=False):
            total, single = own[own["total"]].iloc[0], own[~own["total"]]
            row = {"arm": run.arm, "seed": run.seed, "set": name, "estimator": total["estimator"]}
            row |= {"intervals": len(single), "open": int((~single["closed"]).sum())}
            row |= {"share_closed": float(single["closed"].mean())}
            row |= {"worst": float((single["gap"].abs() / single["bound"]).max())}
            row |= {"helping": float(single["helping"].mean())}
            row |= {name: float(total[name]) for name in ("before", "after", "change", "allocated", "gap", "bound")}
            rows.append(row | {"total_closed": bool(total["closed"])})
    return pd.DataFrame(rows)
