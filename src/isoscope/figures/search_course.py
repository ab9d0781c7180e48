"""Draw a search over its trials: optimisation history, intermediate values, steps saved by pruning."""

import math
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from optuna.trial import FrozenTrial, TrialState

from isoscope.figures.searched import Searched, called, dots, feasible, handles, sheet
from isoscope.figures.style import (
    ARM_COLOURS,
    HATCH,
    INK,
    WIDTH,
    hatch_key,
    legend_below,
    legend_inches,
    style,
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
                color=view.look(trial)[0],
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
