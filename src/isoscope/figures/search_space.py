"""A search over its space: each parameter by itself, two at a time, all at once; some trials lack some parameters."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation
from optuna.trial import FrozenTrial

from isoscope.figures.searched import (
    COLUMNS,
    Scale,
    Searched,
    called,
    dots,
    feasible,
    handles,
    scale,
    set_scale,
    sheet,
    varied,
)
from isoscope.figures.style import INK, SEQUENTIAL, SHAPES, WIDTH, style, wrapped

FEWEST = 6
"""Trials below which nothing is drawn between them."""
LEVELS = 9
"""Of a contour."""
Floats = npt.NDArray[np.float64]


def slices(view: Searched, objective: int) -> Figure | None:
    """A panel per parameter with several values: the objective by its value, over only the trials that have it."""
    trials = view.complete
    names = varied(trials)
    if not names:
        return None
    with style():
        drawing, panels = sheet(len(names), handles(view, trials))
        for axes, name in zip(panels, names, strict=True):
            having = [trial for trial in trials if name in trial.params]
            found = scale(name, having)
            dots(axes, view, having, found.place, _value(objective))
            set_scale(axes, "x", found, name, WIDTH / COLUMNS - 0.4)
            axes.sharey(panels[0])
        for axes in panels[::COLUMNS]:
            axes.set_ylabel(called(view.objectives[objective][0]), fontsize=8)
    return drawing


def parallel(view: Searched, objective: int) -> Figure | None:
    """A line per complete trial through its parameters to the objective, which colours it; gaps where it lacks one.

    Each axis reaches from the smallest to the largest value seen; those that break a constraint are pale.
    """
    trials = sorted(view.complete, key=_value(objective), reverse=not view.objectives[objective][1])
    # What some lack stands first, so that every line ends in its objective.
    names = sorted(varied(trials), key=lambda one: all(one in trial.params for trial in trials))
    if not names or len({trial.values[objective] for trial in trials}) < 2:
        return None
    name, _ = view.objectives[objective]
    columns = [_column(scale(one, trials), [one in trial.params for trial in trials], trials) for one in names]
    columns.append(_column(Scale(_value(objective), False, []), [True] * len(trials), trials))
    heights_TA = np.stack([places for places, _ in columns], axis=1)
    with style():
        drawing = Figure(figsize=(WIDTH, 3.8), layout="constrained")
        axes = drawing.subplots()
        values = [trial.values[objective] for trial in trials]
        colours = ScalarMappable(Normalize(min(values), max(values)), SEQUENTIAL)
        for allowed in (False, True):
            rows = [k for k, trial in enumerate(trials) if feasible(trial) == allowed]
            lines = [(k, line) for k in rows for line in _pieces(heights_TA[k])]
            paint = [colours.to_rgba(values[k], alpha=0.8 if allowed else 0.25) for k, _ in lines]
            drawn = LineCollection([line for _, line in lines], colors=paint, linewidths=1.0)
            drawn.set(rasterized=len(lines) > SHAPES, gid="feasible" if allowed else "infeasible")
            axes.add_collection(drawn)
        for k, trial in enumerate(trials):
            if trial.number == view.chosen:
                pieces = LineCollection(_pieces(heights_TA[k]), colors=INK, linewidths=2.2, zorder=3, gid="chosen")
                axes.add_collection(pieces)
        for position, (_, ticks) in enumerate(columns):
            axes.axvline(position, color=INK, linewidth=0.7)
            for height, label in ticks:
                shown = wrapped(label, 0.8, size=6.5, lines=1)
                axes.text(position + 0.03, height, shown, fontsize=6.5, ha="left", va="center")
        inches = WIDTH / len(columns) * 1.6
        labels = [wrapped(one, inches, size=7, lines=3) for one in [*names, called(name)]]
        axes.set_xticks(range(len(columns)), labels, fontsize=7, rotation=20, ha="right")
        axes.set(xlim=(-0.2, len(columns) - 0.5), ylim=(-0.06, 1.06), yticks=[])
        axes.spines[["left", "bottom"]].set_visible(False)
        drawing.colorbar(colours, ax=axes, pad=0.01, aspect=40).set_label(called(name), fontsize=7.5)
    return drawing


def contours(view: Searched, objective: int, importances: pd.DataFrame) -> Figure | None:
    """A panel per architecture: the objective over its two numbers that matter most, linear between its trials.

    Without importances the two that stand first. `importances`: columns architecture, objective, parameter, importance.
    """
    name, _ = view.objectives[objective]
    rows = importances[importances["objective"] == name] if len(importances) else importances
    chosen: list[tuple[str, list[FrozenTrial], list[str]]] = []
    for group, trials in view.groups.items():
        ranks = {} if rows.empty else dict(
            rows[rows["architecture"] == (group or "all")].set_index("parameter")["importance"]
        )  # fmt: skip
        numbers = [one for one in varied(trials) if not scale(one, trials).labels]
        pair = sorted(numbers, key=lambda one: -ranks.get(one, 0.0))[:2]
        both = [trial for trial in trials if all(one in trial.params for one in pair)]
        if len(pair) == 2 and len(both) >= FEWEST:
            chosen.append((group, both, pair))
    values = [trial.values[objective] for _, trials, _ in chosen for trial in trials]
    if not values or min(values) == max(values):
        return None
    levels = np.linspace(min(values), max(values), LEVELS + 1)
    with style():
        every = [trial for _, trials, _ in chosen for trial in trials]
        drawing, panels = sheet(len(chosen), handles(view, every), height=2.9)
        colours = ScalarMappable(Normalize(levels[0], levels[-1]), SEQUENTIAL)
        for axes, (group, trials, (across, up)) in zip(panels, chosen, strict=True):
            x, y = scale(across, trials), scale(up, trials)
            _between(axes, trials, x, y, _value(objective), levels)
            dots(axes, view, trials, x.place, y.place)
            inches = WIDTH / len(chosen) - 0.5
            set_scale(axes, "x", x, across, inches)
            set_scale(axes, "y", y, up, 2.3)
            axes.set_title(wrapped(group, inches, size=8, lines=1), fontsize=8)
            axes.grid(visible=False)
        drawing.colorbar(colours, ax=panels, pad=0.01, aspect=30).set_label(called(name), fontsize=7.5)
    return drawing


def _between(
    axes: Axes, trials: Sequence[FrozenTrial], x: Scale, y: Scale, z: Callable[..., float], levels: Floats
) -> None:
    """Areas of equal value between the trials (Delaunay); none where they lie on a line or a point."""
    placed = np.array([(x.place(trial), y.place(trial)) for trial in trials])
    scaled = np.stack([_unit(np.log(one) if kind.log else one) for one, kind in zip(placed.T, (x, y), strict=True)], 1)
    _, first = np.unique(scaled, axis=0, return_index=True)
    if np.linalg.matrix_rank(scaled[first] - scaled[first].mean(axis=0), tol=1e-6) < 2:
        return
    # Neighbours are found where both axes count alike; the areas are drawn in the parameters' own units.
    triangles = Triangulation(*scaled[first].T).triangles
    values = [z(trials[one]) for one in first]
    across, up = placed[first].T
    areas = Triangulation(across, up, triangles=triangles)
    axes.tricontourf(areas, values, levels=levels, cmap=SEQUENTIAL, alpha=0.55)


def _value(objective: int) -> Callable[[FrozenTrial], float]:
    return lambda trial: float(trial.values[objective])


def _column(
    found: Scale, having: Sequence[bool], trials: Sequence[FrozenTrial]
) -> tuple[Floats, list[tuple[float, str]]]:
    """Heights of the trials on an axis from 0 to 1, NaN where they have no place there, and its ticks."""
    places = np.array([found.place(trial) if has else np.nan for trial, has in zip(trials, having, strict=True)])
    low, high = float(np.nanmin(places)), float(np.nanmax(places))
    heights = _unit(np.log(places) if found.log else places)
    if found.labels:
        marks = _unit(np.arange(len(found.labels), dtype=float))
        return heights, list(zip(marks.tolist(), found.labels, strict=True))
    return heights, [(0.0, f"{low:.3g}"), (1.0, f"{high:.3g}")]


def _unit(values: Floats) -> Floats:
    """From 0 to 1; a half where all are equal."""
    low, reach = np.nanmin(values), np.nanmax(values) - np.nanmin(values)
    return (values - low) / reach if reach > 0 else np.where(np.isnan(values), np.nan, 0.5)


def _pieces(heights: Floats) -> list[list[tuple[float, float]]]:
    """The parts of a trial's line between its gaps; a place alone between two gaps is a short dash."""
    found: list[list[tuple[float, float]]] = [[]]
    for position, height in enumerate(heights):
        if np.isnan(height):
            found.append([])
        else:
            found[-1].append((float(position), float(height)))
    return [
        part if len(part) > 1 else [(part[0][0] - 0.04, part[0][1]), (part[0][0] + 0.04, part[0][1])]
        for part in found
        if part
    ]
