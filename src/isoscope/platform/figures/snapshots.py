"""Rows of figures over training: snapshots as columns, chosen epochs, updates that all seeds have; bands."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pandas as pd

from isoscope.base.metric import Metric
from isoscope.platform.config.declared import natural

Floats = npt.NDArray[np.float64]
TWIN = -1
"""Column of the random-weights control, which has no step."""
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


def trained(table: pd.DataFrame, *_: pd.DataFrame) -> pd.DataFrame:
    """Return what lines over training show of a table of snapshots: `common` updates, without the twin."""
    table = prepared(table)
    return common(table[table["column"] != TWIN])


def seeds_of(table: pd.DataFrame) -> str:
    """Return `n = 3 seeds`; empty for checkpoints, which have no seeds."""
    if "checkpoint" in table:
        return ""
    n = table["seed"].nunique()
    return f"n = {n} seed{'s' * (n != 1)}"


def trained_seeds_of(table: pd.DataFrame) -> str:
    """Return `n = 3 seeds`, or `n = 3 seeds, to update 948` if other seeds were trained longer; see `common`."""
    last = table[table["column"] != TWIN].groupby("seed")["column"].max()
    return seeds_of(table) + f", to update {last.min()}" * bool((last > last.min()).any())


def chosen(table: pd.DataFrame) -> pd.Series:
    """Return the chosen step of each row's run: its first snapshot marked `best`, else its last snapshot."""
    steps, runs = table["column"].where(table["column"] != TWIN), [table["arm"], table["seed"]]
    last = steps.groupby(runs).transform("max")
    if "best" not in table:
        return last
    return steps.where(table["best"].astype("boolean").fillna(False)).groupby(runs).transform("min").fillna(last)


def at_chosen(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each run's chosen snapshot."""
    return table[table["column"] == chosen(table)]


def at_last_layer(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each run's last layer: arms may have different numbers of layers."""
    return table[table["layer"] == table.groupby(["arm", "seed"])["layer"].transform("max")]


def at_ends(table: pd.DataFrame, *_: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each run's first and chosen snapshot: `end`, and `moment` as people read it.

    If the first snapshot is also the chosen snapshot, its rows appear twice. For a checkpoint, the first is its random
    twin.
    """
    table = prepared(table)
    if "checkpoint" in table:
        found = table.assign(end=np.where(table["column"] == TWIN, "first", "chosen"))
        found = found.sort_values("end", key=lambda end: end == "chosen", kind="stable")  # as in studies
    else:
        trained = table[table["column"] != TWIN]
        first = trained[trained["column"] == trained.groupby(["arm", "seed"])["column"].transform("min")]
        found = pd.concat([first.assign(end="first"), at_chosen(table).assign(end="chosen")], ignore_index=True)
    return found.assign(moment=found["end"].map(moments_of(found)))


def moments_of(table: pd.DataFrame) -> dict[str, str]:
    """Return names for the ends of runs in `table`, with their steps if there are fewer than four."""
    if "checkpoint" in table:
        return {"first": "its random-weights control", "chosen": "the checkpoint"}
    steps = {end: sorted(table.loc[table["end"] == end, "column"].unique()) for end in MOMENTS}
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


def with_range(table: pd.DataFrame, metric: str, declared: Mapping[str, Metric] = MappingProxyType({})) -> pd.DataFrame:
    """Return the rows with the ends of what their metric can be, as least and most; `metric`: column of its name."""
    ends = {name: natural(name, declared) for name in table[metric].unique()}
    least, most = (pd.to_numeric(table[metric].map({name: of[at] for name, of in ends.items()})) for at in (0, 1))
    return table.assign(least=least, most=most)


def line_and_band(table: pd.DataFrame) -> str:
    """Return what a line and its band are, for a caption: an arm with a single seed has no band."""
    several = table.groupby("arm")["seed"].nunique().max() > 1
    return "Line: mean over seeds; band: ± 1 sd" if several else "Line: the only seed of an arm"
