"""Hand-made allocations of runs, in the columns that `training.allocation` writes."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isoscope.platform.outputs import Output, Trained
from isoscope.studies.dynamics.allocated_runs import AllocatedRun

ARM, FOLDS = "masked-additive", 4


def group(
    component: str, layer: int = 0, *, stack: str = "enc", head: int = -1, parameters: int = 10
) -> dict[str, Any]:
    """Return the keys of a group of parameters."""
    return {"stack": stack, "layer": layer, "component": component, "head": head, "parameters": parameters}


def allocation(
    values: list[tuple[dict[str, Any], list[float]]],
    ends: list[int],
    *,
    noise: float = 0.0,
    sets: tuple[str, ...] = ("train", "validation"),
) -> pd.DataFrame:
    """Return a row per interval, set and group; folds deviate from a value by ± `noise`."""
    starts = [0, *ends[:-1]]
    signs = np.where(np.arange(FOLDS) % 2, 1.0, -1.0)
    rows = [
        {"start": start, "update": end, "set": name, "estimator": "simpson"}
        | keys
        | {"value": series[place]}
        | {f"fold_{fold + 1}": series[place] + noise * sign for fold, sign in enumerate(signs)}
        for place, (start, end) in enumerate(zip(starts, ends, strict=True))
        for name in sets
        for keys, series in values
    ]
    return pd.DataFrame(rows)


def closure(table: pd.DataFrame, *, gap: float = 0.0) -> pd.DataFrame:
    """Return a closure table in which every sum is `gap` above the change of the loss."""
    rows = []
    for name, own in table.groupby("set", sort=False):
        sums = own.groupby(["start", "update"])["value"].sum()
        for (start, end), value in sums.items():
            rows.append(_closed(name, start, end, value, gap, total=False))
        rows.append(_closed(name, 0, own["update"].max(), sums.sum(), gap, total=True))
    return pd.DataFrame(rows)


def _closed(name: Any, start: int, end: int, allocated: float, gap: float, *, total: bool) -> dict[str, Any]:
    about = {
        "set": name,
        "start": start,
        "update": end,
        "total": total,
        "estimator": "simpson",
        "bound": 0.005,
        "helping": 0.5,
    }
    change = allocated - gap
    losses = {"before": 5.0, "after": 5.0 + change, "change": change, "allocated": allocated, "gap": gap}
    return about | losses | {"closed": abs(gap) <= 0.005}


def run(
    table: pd.DataFrame,
    *,
    arm: str = ARM,
    seed: int = 0,
    gap: float = 0.0,
    minibatch: pd.DataFrame | None = None,
    objective: dict[str, Any] | None = None,
    folder: Path = Path(),
) -> AllocatedRun:
    """Return a run with these tables."""
    trained = Trained("dynamics", arm, seed, "reordered", "d" * 64, "c" * 64, {}, {})
    params = {
        "objective": objective or {"kind": "masked", "side": "source"},
        "training": {
            "schedule": {"warmup": 0.1, "epochs": None},
            "epochs": 2,
            "budget": {"kind": "tokens", "number": 9e9},
        },
    }
    output = Output(folder, trained, (), params["objective"]["kind"], params)
    empty = pd.DataFrame(columns=["update", "stack", "layer", "component", "value"])
    return AllocatedRun(arm, seed, output, table, closure(table, gap=gap), empty if minibatch is None else minibatch)


def minibatch(values: dict[tuple[str, int, str], list[float]]) -> pd.DataFrame:
    """Return the minibatch estimator's rows by (stack, layer, component)."""
    return pd.DataFrame(
        [
            {"update": update, "stack": stack, "layer": layer, "component": component, "value": value}
            for (stack, layer, component), series in values.items()
            for update, value in enumerate(series, start=1)
        ]
    )


def planted(counts: dict[str, int], cases: int, *, seed: int = 0) -> AllocatedRun:
    """Return a run whose components hurt in as many of the first updates as `counts` says."""
    values = {("enc", 0, name): [1.0] * count + [-1.0] * (cases - count) for name, count in counts.items()}
    return run(allocation([(group("W1"), [-1.0])], [cases]), seed=seed, minibatch=minibatch(values))
