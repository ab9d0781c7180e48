"""Shared parts of figures over training: order of arms, snapshots as columns, chosen epochs, means over seeds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullFormatter

TWIN = -1
"""Column of the twin with random weights, which has no step."""
MOMENTS = {"first": "first snapshot", "chosen": "chosen epoch"}
"""Snapshots at which arms are compared side by side."""


def prepared(table: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Add each row's step to `table` as a whole number `column`; `TWIN` for the twin.

    A table of checkpoints has a column `checkpoint` instead of arm and seed; it becomes the arm, and the seed is 0.
    Raises `ValueError` if the table is empty, lacks one of `columns`, or has two studies.
    """
    if table.empty:
        raise ValueError("nothing to draw: the table has no rows")
    if "checkpoint" in table:
        table = table.assign(arm=table["checkpoint"], seed=0)
    missing = [name for name in ("arm", "seed", "step", *columns) if name not in table]
    if missing:
        raise ValueError(f"columns expected in the table: {', '.join(missing)}")
    if "study" in table and table["study"].nunique() > 1:
        raise ValueError(f"rows of one study expected, got {sorted(table['study'].unique())}")
    steps = table["step"].to_numpy(dtype=float, na_value=np.nan)
    return table.assign(column=np.where(np.isfinite(steps), steps, TWIN).astype(int))


def arms_of(table: pd.DataFrame) -> list[str]:
    """Return the arms in the order of their first row."""
    return list(dict.fromkeys(table["arm"]))


def steps_of(table: pd.DataFrame) -> list[int]:
    """Return the steps of all snapshots, without the twin's column."""
    return sorted(int(step) for step in table["column"].unique() if step != TWIN)


def seeds_of(table: pd.DataFrame) -> str:
    """Return `n = 3 seeds`; empty for checkpoints, which have no seeds."""
    if "checkpoint" in table:
        return ""
    n = int(table["seed"].nunique())
    return f"n = {n} seed{'s' * (n != 1)}"


def trained_seeds_of(table: pd.DataFrame) -> str:
    """Return `n = 3 seeds`, or `n = 3 seeds, after update 948: 2` if runs stopped early."""
    last = table[table["column"] != TWIN].groupby("seed")["column"].max()
    fewer = [f", after update {step}: {(last > step).sum()}" for step in sorted(set(last)) if step < last.max()]
    return seeds_of(table) + "".join(fewer)


def over_seeds(table: pd.DataFrame, by: Sequence[str], value: str) -> pd.DataFrame:
    """Return mean, sd (NaN for a single seed) and n of `value` over seeds with a number, a row per group of `by`."""
    found = table.groupby(list(by), sort=False)[value].agg(["mean", "std", "count"]).reset_index()
    return found.rename(columns={"std": "sd", "count": "n"})


def chosen(table: pd.DataFrame) -> dict[tuple[str, int], int]:
    """Return the chosen step of each run (arm, seed): its first snapshot marked `best`, else its last snapshot."""
    found = {}
    for run, rows in table[table["column"] != TWIN].groupby(["arm", "seed"], sort=False):
        best = rows.loc[rows["best"].astype(bool), "column"] if "best" in rows else rows["column"][:0]
        found[run] = int(best.min() if len(best) else rows["column"].max())
    return found


def at_chosen(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each run's chosen snapshot."""
    steps = chosen(table)
    runs = zip(table["arm"], table["seed"], table["column"], strict=True)
    return table[[steps.get((arm, seed)) == column for arm, seed, column in runs]]


def ends(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each run's first and chosen snapshot, with a column `moment`: `first` or `chosen`.

    If the first snapshot is also the chosen snapshot, its rows appear twice. For a checkpoint, `first` is its random
    twin.
    """
    if "checkpoint" in table:
        return table.assign(moment=np.where(table["column"] == TWIN, "first", "chosen"))
    trained = table[table["column"] != TWIN]
    start = trained.groupby(["arm", "seed"])["column"].transform("min")
    first = trained[trained["column"] == start]
    return pd.concat([first.assign(moment="first"), at_chosen(table).assign(moment="chosen")], ignore_index=True)


def moments_of(table: pd.DataFrame) -> dict[str, str]:
    """Return names for the moments of `ends(table)`, with their steps if there are fewer than four."""
    if "checkpoint" in table:
        return {"first": "its twin with random weights", "chosen": "the checkpoint"}
    names = {"first": "first snapshot", "chosen": "chosen epoch"}
    steps = {moment: sorted(table.loc[table["moment"] == moment, "column"].unique()) for moment in names}
    return {
        moment: f"{name} (update {' or '.join(map(str, found))})" if len(found := steps[moment]) < 4 else name
        for moment, name in names.items()
    }


def banded(
    axes: Axes, means: pd.DataFrame, along: str, *, marks: int, alpha: float, start: int = 0, **line: Any
) -> None:
    """Draw a line through `means` (from `over_seeds`) by the column `along`, with a band of ± 1 sd.

    About `marks` markers are drawn, from point `start` on. `line`: options of `Axes.plot`, including `color`.
    """
    means = means.sort_values(along)
    at, mean, sd = (means[name].to_numpy(dtype=float) for name in (along, "mean", "sd"))
    axes.plot(at, mean, markersize=3, markevery=(start, max(1, len(at) // marks)), **line)
    spread = np.nan_to_num(sd)  # a single seed has no sd, so no band
    axes.fill_between(at, mean - spread, mean + spread, color=line["color"], alpha=alpha, linewidth=0)


def step_axis(axes: Axes, steps: Sequence[int]) -> None:
    """Set the x-axis to steps: logarithmic from 1, with 0 at the left end; minor ticks at multiples of powers of 10."""
    last = max(max(steps), 1)
    axes.set_xscale("symlog", linthresh=1, linscale=0.5)
    axes.xaxis.set_major_locator(FixedLocator([0, *(10**power for power in range(int(np.log10(last)) + 1))]))
    axes.xaxis.set_major_formatter(lambda step, _: f"{step:.0f}")
    axes.xaxis.set_minor_locator(FixedLocator(_between(last)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(-0.15, last * 1.25)


def _between(last: int) -> list[int]:
    """Return multiples of powers of ten up to `last`."""
    powers = [10**power for power in range(int(np.log10(last)) + 1)]
    return [times * power for power in powers for times in range(2, 10) if times * power <= last]
