"""Draw all figures of a search in the project's style.

optuna.visualization.matplotlib draws through pyplot's global state, in colours that a dark page hides, and leaves out
trials that lack a conditional parameter.
"""

import math
from collections.abc import Mapping
from itertools import accumulate, combinations
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from isoscope.platform.config.declared import title as title_of
from isoscope.platform.figures.style import (
    ARM_COLOURS,
    HATCH,
    INK,
    SHAPES,
    WIDTH,
    hatch_key,
    hatched,
    legend_below,
    legend_inches,
    style,
    to_svg,
    wrapped,
)
from isoscope.platform.search.outcomes import feasible, saved_by_pruning
from isoscope.platform.search.searched import COLUMNS, Searched, along, called, dots, handles, sheet, varied


def history(view: Searched) -> Figure | None:
    """Draw a panel per objective: each complete trial's value by its number, and the best feasible value so far."""
    trials = view.complete
    if not trials:
        return None
    with style():
        shown = [trial for trial in trials if feasible(trial)]
        best = [Line2D([], [], color=INK, linewidth=1, label="best so far")]
        below = handles(view, trials) + (best if shown else [])
        drawing, panels = sheet(len(view.objectives), below, height=2.8)
        for index, (axes, (name, more)) in enumerate(zip(panels, view.objectives, strict=True)):
            dots(axes, view, trials, [trial.number for trial in trials], [trial.values[index] for trial in trials])
            so_far = accumulate((trial.values[index] for trial in shown), max if more else min)
            axes.step(
                [trial.number for trial in shown], list(so_far), where="post", color=INK, linewidth=1, gid="best so far"
            )
            axes.set_xlabel("Trial", fontsize=8)
            axes.set_ylabel(called(name), fontsize=8)
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    return drawing


def intermediate(view: Searched) -> Figure | None:
    """Draw what each trial reported by step, in its architecture's colour; pruned: dashed, with a cross at the end.

    A gap is a step whose value was not finite.
    """
    reports = [(trial, _finite(trial)) for trial in view.trials if view.group(trial) in view.groups and _finite(trial)]
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
                color=view.look(view.group(trial))["color"],
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
    if all(trial.state == TrialState.COMPLETE for trial in ended):
        return None
    found, steps = saved_by_pruning(view.study), view.study.user_attrs["steps"]
    ran = [steps if trial.state == TrialState.COMPLETE else len(trial.intermediate_values) for trial in ended]
    left = [sum(one > step for one in ran) for step in range(steps)]
    with style():
        share = 1 - found.run / found.full
        saved = hatch_key(f"saved: {found.full - found.run:,} of {found.full:,} steps, {share:.0%}")
        below = [Patch(facecolor=ARM_COLOURS[0], label=f"run: {found.run:,} steps"), saved]
        drawing = Figure(figsize=(WIDTH * 0.7, 2.6 + legend_inches(below, 2)), layout="constrained")
        axes = drawing.subplots()
        edges = [step + 0.5 for step in range(steps + 1)]
        axes.stairs(left, edges, fill=True, color=ARM_COLOURS[0], gid="run")
        above: dict[str, Any] = {"facecolor": "none", "edgecolor": HATCH, "hatch": "////", "linewidth": 0}
        axes.stairs([len(ended)] * steps, edges, baseline=left, fill=True, gid="saved", **above)
        axes.set(xlim=(0.5, steps + 0.5), ylim=(0, len(ended)))
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
    with style():
        look: dict[str, Any] = {"color": INK, "marker": ".", "markersize": 3, "zorder": 3, "linewidth": 1.0}
        look["linestyle"] = "-" if len(pairs) == 1 else ""
        line = [Line2D([], [], label=f"front, n = {len(view.front)}", **look)]
        below = handles(view, trials) + (line if view.front else [])
        drawing, panels = sheet(len(pairs), below, height=3.2 if len(pairs) == 1 else 2.4)
        for axes, (across, up) in zip(panels, pairs, strict=True):
            dots(axes, view, trials, [one.values[across] for one in trials], [one.values[up] for one in trials])
            for trial in trials if len(trials) <= SHAPES else ():  # a page says there what the trial is
                target: dict[str, Any] = {"marker": "o", "linestyle": "", "markersize": 7, "alpha": 0, "zorder": 4}
                axes.plot([trial.values[across]], [trial.values[up]], gid=f"trial:{trial.number}", **target)
            points = sorted((trial.values[across], trial.values[up]) for trial in view.front)
            axes.plot([x for x, _ in points], [y for _, y in points], gid="front", **look)
            for index, axis in ((across, axes.xaxis), (up, axes.yaxis)):
                name, more = view.objectives[index]
                axis.set_label_text(f"{called(name)}\n({'more' if more else 'less'} is better)", fontsize=7.5)
    return drawing


def importance_bars(view: Searched, importances: pd.DataFrame, *, least: int) -> Figure | None:
    """Draw parameter importances with intervals: a row per architecture, a column per objective.

    Architectures without importances are left out (fewer than `least` complete trials, or nothing varied); without any
    there is no figure. `importances`: columns architecture, objective, parameter, importance, low, high.
    """
    known = set(importances.loc[importances["importance"].notna(), "architecture"])
    objectives = [name for name, _ in view.objectives]
    counts = {group: len(trials) for group, trials in view.groups.items() if group in known}
    if not counts:
        return None
    parameters = {group: _bars(importances, group) for group in counts}
    heights = [0.75 + 0.17 * max(1, len(parameters[group])) for group in counts]
    with style():
        drawing = Figure(figsize=(WIDTH, sum(heights) + 0.3), layout="constrained")
        panels = drawing.subplots(len(counts), len(objectives), squeeze=False, sharex=True, height_ratios=heights)
        for (group, count), row in zip(counts.items(), panels, strict=True):
            for axes, objective in zip(row, objectives, strict=True):
                title = f"{group}, n = {count}: {title_of(objective)}"
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
            dots(axes, view, having, along(axes, name, having), [trial.values[objective] for trial in having])
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
) -> list[tuple[str, str]]:
    """Return (name, SVG) of every figure with data, in order. Equal studies give equal bytes.

    - `chosen`: number of the trial to mark, best or suggested; None marks none.
    - `importances`: columns architecture, objective, parameter, importance, low, high; an architecture with fewer than
      `least` complete trials has no rows.
    - `metadata`: as for `to_svg`.
    """
    view = Searched(study, chosen=chosen)
    drawn = {
        "history": history(view),
        "front": fronts(view),
        "importances": importance_bars(view, importances, least=least),
        **{f"slice-{one + 1}" if one else "slice": slices(view, one) for one in range(len(view.objectives))},
        "intermediate": intermediate(view),
        "pruning": pruning(view),
    }
    return [(name, to_svg(figure, metadata)) for name, figure in drawn.items() if figure is not None]
