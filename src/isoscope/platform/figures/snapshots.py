"""Shared parts of figures over training: arms, their legend, snapshots as columns, chosen epochs, means over seeds."""

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullFormatter

Floats = npt.NDArray[np.float64]
TWIN = -1
"""Column of the twin with random weights, which has no step."""
EVERY = "Shown: updates that all seeds of an arm have."
"""For captions of means over training: see `common`."""
Range = tuple[float | pd.Series | None, float | pd.Series | None]
"""The ends of what a metric can be; None: no end. Of several metrics, an end per row."""
MOMENTS = {"first": "first snapshot", "chosen": "chosen epoch"}
"""Snapshots at which arms are compared side by side."""


def prepared(table: pd.DataFrame) -> pd.DataFrame:
    """Add each row's step to `table` as a whole number `column`; `TWIN` for the twin.

    A table of checkpoints has a column `checkpoint` instead of arm and seed; it becomes the arm, and the seed is 0.
    Raises `ValueError` if the table is empty.
    """
    if table.empty:
        raise ValueError("nothing to draw: the table has no rows")
    if "checkpoint" in table:
        table = table.assign(arm=table["checkpoint"], seed=0)
    return table.assign(column=table["step"].astype("Float64").fillna(TWIN).astype(int))


def common(table: pd.DataFrame, along: str = "column") -> pd.DataFrame:
    """Return the rows at updates that every seed of their arm has: only there is a mean over seeds drawn.

    Each run keeps its chosen snapshot, and seeds may choose or stop at different updates. A mean over the seeds that
    have an update would jump to a single run and back.
    """
    seeds = table.groupby("arm")["seed"].transform("nunique")
    return table[table.groupby(["arm", along])["seed"].transform("nunique") == seeds]


def over_training(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a `prepared` table that lines over training show: `common` updates, without the twin."""
    return common(table[table["column"] != TWIN])


def trained(table: pd.DataFrame, *_: pd.DataFrame) -> pd.DataFrame:
    """Return what figures over training draw of a table of snapshots: see `over_training`."""
    return over_training(prepared(table))


def seeds_of(table: pd.DataFrame) -> str:
    """Return `n = 3 seeds`; empty for checkpoints, which have no seeds."""
    if "checkpoint" in table:
        return ""
    n = int(table["seed"].nunique())
    return f"n = {n} seed{'s' * (n != 1)}"


def trained_seeds_of(table: pd.DataFrame) -> str:
    """Return `n = 3 seeds`, or `n = 3 seeds, to update 948` if other seeds were trained longer; see `common`."""
    last = table[table["column"] != TWIN].groupby("seed")["column"].max()
    return seeds_of(table) + f", to update {last.min()}" * bool((last > last.min()).any())


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


def at_ends(table: pd.DataFrame, *_: pd.DataFrame) -> pd.DataFrame:
    """Return the first and the chosen snapshot of each run: `end`, and `moment` as people read it."""
    found = ends(prepared(table))
    return found.assign(end=found["moment"], moment=found["moment"].map(moments_of(found)))


def moments_of(table: pd.DataFrame) -> dict[str, str]:
    """Return names for the moments of `ends(table)`, with their steps if there are fewer than four."""
    if "checkpoint" in table:
        return {"first": "its twin with random weights", "chosen": "the checkpoint"}
    steps = {moment: sorted(table.loc[table["moment"] == moment, "column"].unique()) for moment in MOMENTS}
    return {
        moment: f"{name} (update {' or '.join(map(str, found))})" if len(found := steps[moment]) < 4 else name
        for moment, name in MOMENTS.items()
    }


def band(mean: npt.ArrayLike, sd: npt.ArrayLike, within: Range = (None, None)) -> tuple[Floats, Floats]:
    """Return mean − sd and mean + sd, not beyond the range `within`; a single seed has no sd, so no band.

    A mean beyond the range (a metric corrected for n can be below 0) stays in its band.
    """
    centre, spread = np.asarray(mean, dtype=float), np.nan_to_num(np.asarray(sd, dtype=float))
    least, most = (np.nan if end is None else end for end in within)
    low, high = np.fmax(centre - spread, least), np.fmin(centre + spread, most)
    return np.minimum(low, centre), np.maximum(high, centre)


def line_and_band(table: pd.DataFrame) -> str:
    """Return what a line and its band are, for a caption: an arm with a single seed has no band."""
    several = table.groupby("arm")["seed"].nunique().max() > 1
    return "Line: mean over seeds; band: ± 1 sd" if several else "Line: the only seed of an arm"


def log_steps(axes: Axes, last: float) -> None:
    """Set the x-axis to steps: logarithmic from 1, with 0 at the left end; minor ticks at multiples of powers of 10."""
    last = max(last, 1.0)
    powers = [10**power for power in range(int(np.log10(last)) + 1)]
    between = [times * power for power in powers for times in range(2, 10) if times * power <= last]
    axes.set_xscale("symlog", linthresh=1, linscale=0.5)
    axes.xaxis.set_major_locator(FixedLocator([0, *powers]))
    axes.xaxis.set_major_formatter(lambda step, _: f"{step:.0f}")
    axes.xaxis.set_minor_locator(FixedLocator(between))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(-0.15, last * 1.25)
