"""Shared parts of figures over training: arms, their legend, snapshots as columns, chosen epochs, means over seeds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullFormatter

from isoscope.platform.figures.style import WIDTH, look, multiples, named

Floats = npt.NDArray[np.float64]
TWIN = -1
"""Column of the twin with random weights, which has no step."""
COLUMNS = 6
"""Up to this number of arms, each has a column of panels; more have a row each."""
EVERY = "Shown: updates that all seeds of an arm have."
"""For captions of means over training: see `common`."""
Range = tuple[float | None, float | None]
SHARE: Range = (0.0, 1.0)
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


def arms_of(table: pd.DataFrame) -> list[str]:
    """Return the arms in the order of their first row."""
    return list(dict.fromkeys(table["arm"]))


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


def keys(
    table: pd.DataFrame, inches: float, facts: Callable[[pd.DataFrame], str] = seeds_of, **line: Any
) -> list[Artist]:
    """Return a legend entry per arm: its look, its name, and `facts` from its rows; `line`: changes of the look."""
    return [
        Line2D([], [], label=named(arm, facts(table[table["arm"] == arm]), inches, size=7.5), **look(index) | line)
        for index, arm in enumerate(arms_of(table))
    ]


def beside(
    rows: Mapping[str, str], table: pd.DataFrame, height: float, **options: Any
) -> tuple[Figure, dict[tuple[Any, Any], Axes]]:
    """Return a figure with a column of panels per arm, and its panels; `rows`, `options`: as for `multiples`.

    More than `COLUMNS` arms are rows, and `rows` are columns.
    """
    arms = arms_of(table)
    facts = {arm: trained_seeds_of(table[table["arm"] == arm]) for arm in arms}
    if len(arms) > COLUMNS:
        if options.get("sharey") == "row":
            options["sharey"] = "col"
        labels = {arm: named(arm, facts[arm], 1.15, size=7.5) for arm in arms}
        figure, panels = multiples(labels, rows, (WIDTH, 1.2 * len(arms) + 0.9), **options)
        return figure, {(row, arm): axes for (arm, row), axes in panels.items()}
    width = max(3.4, min(WIDTH, 2.4 * len(arms) + 0.7))
    inches = (width - 1.0) / len(arms)
    titles = {arm: named(arm, facts[arm], inches, size=8.5) for arm in arms}
    return multiples(rows, titles, (width, height), **options)


def over_seeds(table: pd.DataFrame, by: Sequence[str], value: str) -> pd.DataFrame:
    """Return mean, sd (NaN for a single seed) and n of `value` over seeds with a number, a row per group of `by`."""
    return table.groupby(list(by), sort=False)[value].agg(mean="mean", sd="std", n="count").reset_index()


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


def banded(
    axes: Axes,
    rows: pd.DataFrame,
    along: str,
    value: str,
    *,
    marks: int,
    alpha: float = 0.16,
    start: int = 0,
    within: Range = (None, None),
    **line: Any,
) -> None:
    """Draw a line through the means of `value` over seeds by the column `along`, with a band of ± 1 sd.

    `within`: the range that the value can take, where the band ends (`band`). About `marks` markers are drawn, from
    point `start` on. `line`: options of `Axes.plot`, including `color`; both are named by its `gid`.
    """
    means = over_seeds(rows, [along], value).sort_values(along).astype(float)
    at, mean = means[along], means["mean"]
    marked: dict[str, Any] = {"markersize": 3, "markevery": (start, max(1, len(at) // marks))}
    axes.plot(at, mean, **marked | line)
    low, high = band(mean, means["sd"], within)
    axes.fill_between(at, low, high, color=line["color"], alpha=alpha, linewidth=0, gid=line.get("gid"))


def step_axis(axes: Axes, table: pd.DataFrame) -> None:
    """Set the x-axis to steps: logarithmic from 1, with 0 at the left end; minor ticks at multiples of powers of 10."""
    last = max(int(table["column"].max()), 1)
    powers = [10**power for power in range(int(np.log10(last)) + 1)]
    between = [times * power for power in powers for times in range(2, 10) if times * power <= last]
    axes.set_xscale("symlog", linthresh=1, linscale=0.5)
    axes.xaxis.set_major_locator(FixedLocator([0, *powers]))
    axes.xaxis.set_major_formatter(lambda step, _: f"{step:.0f}")
    axes.xaxis.set_minor_locator(FixedLocator(between))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(-0.15, last * 1.25)
