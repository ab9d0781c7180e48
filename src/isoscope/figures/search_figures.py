"""Draw all figures of a search in the project's style.

optuna.visualization.matplotlib draws through pyplot's global state, in colours that a dark page hides, and leaves out
trials that lack a conditional parameter.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from isoscope.figures.search_captions import caption
from isoscope.figures.searched import (
    COLUMNS,
    Searched,
    called,
    dots,
    feasible,
    handles,
    scale,
    searched,
    set_scale,
    sheet,
    varied,
)
from isoscope.figures.style import (
    ARM_COLOURS,
    HATCH,
    INK,
    WIDTH,
    hatch_key,
    hatched,
    legend_below,
    legend_inches,
    style,
    to_svg,
    wrapped,
)


def history(view: Searched) -> Figure | None:
    """Draw a panel per objective: each complete trial's value by its number, and the best feasible value so far."""
    trials = view.complete
    if not trials:
        return None
    with style():
        shown = [trial for trial in trials if feasible(trial)]
        below = handles(view, trials)
        if shown:
            below.append(Line2D([], [], color=INK, linewidth=1, label="best so far"))
        drawing, panels = sheet(len(view.objectives), below, height=2.8)
        for index, (axes, (name, more)) in enumerate(zip(panels, view.objectives, strict=True)):
            dots(axes, view, trials, lambda trial: trial.number, lambda trial, k=index: trial.values[k])  # type: ignore[misc]
            so_far: list[float] = []
            for trial in shown:
                value = trial.values[index]
                so_far.append((max if more else min)([value, *so_far[-1:]]))
            numbers = [trial.number for trial in shown]
            axes.step(numbers, so_far, where="post", color=INK, linewidth=1, gid="best so far")
            axes.set_xlabel("Trial", fontsize=8)
            axes.set_ylabel(called(name), fontsize=8)
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    return drawing


def intermediate(view: Searched) -> Figure | None:
    """Draw what each trial reported by step, in its architecture's colour; pruned: dashed, with a cross at the end.

    A gap is a step whose value was not finite.
    """
    reports = [(trial, _finite(trial)) for trial in view.trials if view.known(trial) and _finite(trial)]
    if not reports:
        return None
    with style():
        pruned = [trial for trial, _ in reports if trial.state == TrialState.PRUNED]
        below = handles(view, [trial for trial, _ in reports], lines=True)
        cross: dict[str, Any] = {"marker": "x", "color": HATCH, "markersize": 5}
        if pruned:
            below.append(Line2D([], [], linestyle="--", linewidth=0.9, label=f"pruned, n = {len(pruned)}", **cross))
        drawing, (axes,) = sheet(1, below, height=3.2)
        for trial, found in reports:
            early = trial.state == TrialState.PRUNED
            steps = range(min(found), max(found) + 1)
            axes.plot(
                *([step + 1 for step in steps], [found.get(step, math.nan) for step in steps]),
                color=view.look(trial)["color"],
                linestyle="--" if early else "-",
                linewidth=2.6 if trial.number == view.chosen else 0.9,
                alpha=0.55 if early else 0.9,
                gid="pruned" if early else "reported",
            )
            if early:
                axes.plot([max(found) + 1], [found[max(found)]], linestyle="", gid="end", **cross)
        axes.set_xlabel("Step: epochs, seed after seed", fontsize=8)
        axes.set_ylabel(called(view.objectives[0][0]), fontsize=8)
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    return drawing


def pruning(view: Searched) -> Figure | None:
    """Draw the number of complete and pruned trials that ran each step; the hatched area is what pruning saved."""
    ended = [trial for trial in view.trials if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)]
    taken = [len(trial.intermediate_values) if trial.state == TrialState.PRUNED else view.steps for trial in ended]
    if not any(trial.state == TrialState.PRUNED for trial in ended) or not view.steps:
        return None
    left = [sum(one > step for one in taken) for step in range(view.steps)]
    full = view.steps * len(ended)
    with style():
        saved = hatch_key(f"saved: {full - sum(left):,} of {full:,} steps, {1 - sum(left) / full:.0%}")
        below = [Patch(facecolor=ARM_COLOURS[0], label=f"run: {sum(left):,} steps"), saved]
        drawing = Figure(figsize=(WIDTH * 0.7, 2.6 + legend_inches(below, 2)), layout="constrained")
        axes = drawing.subplots()
        edges = [step + 0.5 for step in range(view.steps + 1)]
        axes.stairs(left, edges, fill=True, color=ARM_COLOURS[0], gid="run")
        above: dict[str, Any] = {"facecolor": "none", "edgecolor": HATCH, "hatch": "////", "linewidth": 0}
        axes.stairs([len(ended)] * view.steps, edges, baseline=left, fill=True, gid="saved", **above)
        axes.set(xlim=(0.5, view.steps + 0.5), ylim=(0, len(ended)))
        axes.set_xlabel("Step: epochs, seed after seed", fontsize=8)
        axes.set_ylabel(wrapped("Trials that ran it", 2.4, size=8), fontsize=8)
        axes.tick_params(labelsize=7)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(8, integer=True))
        legend_below(drawing, below, columns=2)
    return drawing


def _finite(trial: FrozenTrial) -> dict[int, float]:
    """Return step → value, finite values only."""
    return {step: value for step, value in sorted(trial.intermediate_values.items()) if math.isfinite(value)}


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


def slices(view: Searched, objective: int) -> Figure | None:
    """Draw a panel per parameter with several values: the objective by its value, over the trials that have it."""
    trials = view.complete
    names = varied(trials)
    if not names:
        return None
    with style():
        drawing, panels = sheet(len(names), handles(view, trials))
        for axes, name in zip(panels, names, strict=True):
            having = [trial for trial in trials if name in trial.params]
            found = scale(name, having)
            dots(axes, view, having, found.place, lambda trial: float(trial.values[objective]))
            set_scale(axes, found, name, WIDTH / COLUMNS - 0.4)
            axes.sharey(panels[0])
        for axes in panels[::COLUMNS]:
            axes.set_ylabel(called(view.objectives[objective][0]), fontsize=8)
    return drawing


def pictures(
    study: Study,
    importances: pd.DataFrame,
    *,
    chosen: int | None,
    least: int,
    metadata: Mapping[str, str] | None = None,
) -> list[tuple[str, str, str, str]]:
    """Return (name, title, caption, SVG) of every figure with data, in order. Equal studies give equal bytes.

    - `chosen`: number of the trial to mark, best or suggested; None marks none.
    - `importances`: columns architecture, objective, parameter, importance, low, high; an architecture with fewer than
      `least` complete trials has no rows.
    - `metadata`: as for `to_svg`.
    """
    view = searched(study, chosen=chosen)
    drawn = ((name, figure) for name, figure in _figures(view, importances, least) if figure is not None)
    return [(name, *caption(name), to_svg(figure, metadata)) for name, figure in drawn]


def _figures(view: Searched, importances: pd.DataFrame, least: int) -> Iterator[tuple[str, Figure | None]]:
    yield "history", history(view)
    yield "front", fronts(view)
    yield "importances", importance_bars(view, importances, least=least)
    for one in range(len(view.objectives)):
        yield f"slice-{one + 1}" if one else "slice", slices(view, one)
    yield "intermediate", intermediate(view)
    yield "pruning", pruning(view)
