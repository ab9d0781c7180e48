"""Arms over training: curves of any figures, and what a task's metric costs in anisotropy."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from isoscope.figures.snapshots import arms_of, over_seeds, seeds_of
from isoscope.figures.style import WIDTH, legend_below, legend_inches, look, named, style, wrapped

MOST = 60
"""Points of a curve: neighbouring updates are averaged down to so many."""
PANELS = 3
"""In a row."""


def course(curves: pd.DataFrame, figures: Mapping[str, str], *, across: str = "Update") -> Figure:
    """A panel per figure (metric name → label): mean over seeds by `step` with a band of ± 1 sd, a line per arm.

    `curves`: columns arm, seed, step, metric, value. Where a figure has more than `MOST` updates, neighbours are
    averaged within each run first. Raises `ValueError` where none of the figures was measured.
    """
    shown = {metric: label for metric, label in figures.items() if (curves["metric"] == metric).any()}
    if not shown:
        raise ValueError(f"none of these was measured: {', '.join(figures)}")
    arms = arms_of(curves)
    rows = -(-len(shown) // PANELS)
    with style():
        handles = legend(curves, arms)
        size = (WIDTH, 2.0 * rows + 0.3 + legend_inches(handles, 2))
        drawing = Figure(figsize=size, layout="constrained")
        panels = drawing.subplots(rows, min(PANELS, len(shown)), squeeze=False).ravel()
        for axes, (metric, label) in zip(panels, shown.items(), strict=False):
            _panel(axes, curves[curves["metric"] == metric], arms)
            axes.set_title(wrapped(label, WIDTH / PANELS - 0.4, size=8, lines=3), fontsize=8)
            axes.set_xlabel(across, fontsize=8)
        for axes in panels[len(shown) :]:
            axes.set_visible(False)
        legend_below(drawing, handles, columns=2)
    return drawing


def trade(
    averages: pd.DataFrame, *, across: str, up: str, labels: tuple[str, str], weights: Mapping[str, tuple[str, float]]
) -> Figure:
    """Each run by two of its averaged figures, small, and each arm's mean over seeds with bars of ± 1 sd.

    `averages`: columns arm, seed, figure, value; `across` and `up` are figures, `labels` what the axes say. `weights`:
    arm → family and weight; arms of a family have one colour, a line through their means, and each its weight beside
    it. Raises `ValueError` where one of the figures was not measured.
    """
    wide = averages.pivot_table(index=["arm", "seed"], columns="figure", values="value", sort=False)
    if missing := [figure for figure in (across, up) if figure not in wide]:
        raise ValueError(f"none of these was measured: {', '.join(missing)}")
    runs = wide[[across, up]].dropna().reset_index()
    families: dict[str, list[str]] = {}
    for arm in arms_of(averages):
        families.setdefault(weights[arm][0], []).append(arm)
    with style():
        handles = legend(averages.assign(arm=[weights[arm][0] for arm in averages["arm"]]), list(families))
        drawing = Figure(figsize=(WIDTH * 0.7, 3.2 + legend_inches(handles, 2)), layout="constrained")
        axes = drawing.subplots()
        for index, arms in enumerate(families.values()):
            colour, marker = look(index)
            several = sorted(arms, key=lambda arm: weights[arm][1])
            means = runs.groupby("arm")[[across, up]].mean().reindex(several)
            if len(several) > 1:
                axes.plot(means[across], means[up], color=colour, linewidth=0.8, alpha=0.6)
            for arm in several:
                rows = runs[runs["arm"] == arm]
                axes.plot(rows[across], rows[up], linestyle="", marker=marker, markersize=3, color=colour, alpha=0.5)
                spread = [None if len(rows) < 2 else rows[one].std() for one in (across, up)]
                at = (rows[across].mean(), rows[up].mean())
                axes.errorbar(
                    *at, xerr=spread[0], yerr=spread[1], marker=marker, markersize=7, color=colour, elinewidth=1
                )
                if len(several) > 1:
                    beside: dict[str, Any] = {
                        "xytext": (4, 4),
                        "textcoords": "offset points",
                        "fontsize": 6.5,
                        "color": colour,
                    }
                    axes.annotate(f"{weights[arm][1]:g}", at, **beside)
        axes.set(xlabel=labels[0], ylabel=labels[1])
        axes.grid(visible=True)
        legend_below(drawing, handles, columns=2)
    return drawing


def legend(table: pd.DataFrame, arms: Sequence[str]) -> list[Line2D]:
    """A handle per arm, which says how many seeds it has."""
    handles = []
    for index, arm in enumerate(arms):
        colour, marker = look(index)
        label = named(arm, seeds_of(table[table["arm"] == arm]), 2.8, size=7.5)
        handles.append(Line2D([], [], color=colour, marker=marker, label=label))
    return handles


def _panel(axes: Axes, curves: pd.DataFrame, arms: Sequence[str]) -> None:
    for index, arm in enumerate(arms):
        rows = curves[curves["arm"] == arm]
        colour, marker = look(index)
        means = over_seeds(thinned(rows), ["step"], "value").sort_values("step")
        step, mean, sd = (means[name].to_numpy(dtype=float) for name in ("step", "mean", "sd"))
        every = max(1, len(step) // 6)
        axes.plot(step, mean, color=colour, marker=marker, markersize=3, markevery=every, linewidth=1.2, zorder=3)
        spread = np.nan_to_num(sd)  # one seed has no sd, and so no band
        axes.fill_between(step, mean - spread, mean + spread, color=colour, alpha=0.16, linewidth=0)
    axes.tick_params(labelsize=7)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.grid(visible=True, axis="y")


def thinned(rows: pd.DataFrame, most: int = MOST) -> pd.DataFrame:
    """Each run's points averaged over spans of updates, so that at most `most` are left, each at its span's last."""
    steps = np.sort(rows["step"].unique())
    if len(steps) <= most:
        return rows[["seed", "step", "value"]]
    width = -(-len(steps) // most)
    ends = steps[np.minimum(np.arange(len(steps)) // width * width + width - 1, len(steps) - 1)]
    spans = rows.assign(step=rows["step"].map(dict(zip(steps.tolist(), ends.tolist(), strict=True))))
    return spans.groupby(["seed", "step"], sort=False)["value"].mean().reset_index()
