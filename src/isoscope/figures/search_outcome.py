"""Draw the outcome of a search: Pareto front and parameter importances."""

from itertools import combinations
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isoscope.figures.searched import Searched, called, dots, handles, sheet
from isoscope.figures.style import ARM_COLOURS, INK, WIDTH, hatched, style, wrapped


def fronts(view: Searched) -> Figure | None:
    """Draw a panel per pair of objectives: complete trials and the front; with two objectives it is a line."""
    trials = view.complete
    pairs = list(combinations(range(len(view.objectives)), 2))
    if not pairs or not trials:
        return None
    best = [trial for trial in trials if trial.number in view.front]
    with style():
        look: dict[str, Any] = {"color": INK, "marker": ".", "markersize": 3, "zorder": 3, "linewidth": 1.0}
        look["linestyle"] = "-" if len(pairs) == 1 else ""
        below = handles(view, trials)
        if best:
            below.append(Line2D([], [], label=f"front, n = {len(best)}", **look))
        drawing, panels = sheet(len(pairs), below, height=3.2 if len(pairs) == 1 else 2.4)
        for axes, (across, up) in zip(panels, pairs, strict=True):
            dots(axes, view, trials, lambda one, k=across: one.values[k], lambda one, k=up: one.values[k])  # type: ignore[misc]
            line = sorted((trial.values[across], trial.values[up]) for trial in best)
            axes.plot([x for x, _ in line], [y for _, y in line], gid="front", **look)
            for index, axis in ((across, axes.xaxis), (up, axes.yaxis)):
                name, more = view.objectives[index]
                axis.set_label_text(f"{called(name)} ({'more' if more else 'less'} is better)", fontsize=7.5)
    return drawing


def importance_bars(view: Searched, importances: pd.DataFrame, *, least: int) -> Figure | None:
    """Draw parameter importances with intervals: a row per architecture, a column per objective.

    A panel without importances says how many complete trials are missing up to `least`. `importances`: columns
    architecture, objective, parameter, importance, low, high.
    """
    if not view.complete:
        return None
    objectives = [name for name, _ in view.objectives]
    counts = {group or "all": len(trials) for group, trials in view.groups.items()}
    parameters = {group: _bars(importances, group) for group in counts}
    heights = [0.75 + 0.17 * max(1, len(parameters[group])) for group in counts]
    with style():
        drawing = Figure(figsize=(WIDTH, sum(heights) + 0.3), layout="constrained")
        panels = drawing.subplots(len(counts), len(objectives), squeeze=False, sharex=True, height_ratios=heights)
        for (group, count), row in zip(counts.items(), panels, strict=True):
            for axes, objective in zip(row, objectives, strict=True):
                title = f"{group}, n = {count}: {called(objective)}"
                axes.set_title(wrapped(title, WIDTH / len(objectives) - 0.6, size=8), fontsize=8)
                axes.set(xlim=(0, 1.02))
                axes.tick_params(labelsize=7)
                rows = importances[(importances["architecture"] == group) & (importances["objective"] == objective)]
                rows = rows.set_index("parameter").reindex(parameters[group])
                if rows["importance"].notna().any():
                    places = range(len(rows))
                    axes.barh(places, rows["importance"], height=0.6, color=ARM_COLOURS[0], gid="importance")
                    axes.hlines(places, rows["low"], rows["high"], color=INK, linewidth=1.4, gid="interval")
                    axes.set_yticks(places, [wrapped(one, 1.9, size=7, lines=1) for one in rows.index])
                    axes.grid(visible=True, axis="x")
                else:
                    axes.set_yticks([])
                    lacking = f"{count} of {least} complete trials: {least - count} are missing"
                    hatched(axes, lacking if count < least else "nothing varied")
        for axes in panels[-1]:
            axes.set_xlabel("Share of variance", fontsize=8)
    return drawing


def _bars(importances: pd.DataFrame, group: str) -> list[str]:
    """Return an architecture's parameters, the most important over all objectives on top."""
    rows = importances[importances["architecture"] == group]
    return list(rows.groupby("parameter")["importance"].mean().sort_values(kind="stable").index)
