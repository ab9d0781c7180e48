"""Geometry by layer of one or several checkpoints, each beside its twin with random weights."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from isoscope.figures.scales import scale_of
from isoscope.figures.snapshots import arms_of
from isoscope.figures.style import INK, hatched, look, style, wrapped

COLUMNS = 3
TWIN_LINE: Any = (0, (1, 1.2))
NOISE_LINE: Any = (0, (4, 2))


def geometry_by_layer(geometry: pd.DataFrame, figures: Sequence[str], *, vectors: str) -> Figure:
    """A panel per figure: value by layer, a line per checkpoint with its interval where it has one.

    Dotted: the checkpoint's twin with random weights; dashed: isotropic noise at the same n and d. Cells whose points
    are all one have no value and are left out. `geometry`: the table with a column `checkpoint`. Figures that were not
    measured on `vectors` are left out; raises `ValueError` where none was.
    """
    table = geometry[geometry["vectors"] == vectors].rename(columns={"checkpoint": "arm"})
    there = [figure for figure in figures if (table["figure"] == figure).any()]
    if not there:
        raise ValueError(f"figures: none of {', '.join(figures)} was measured on {vectors!r}")
    names = arms_of(table)
    columns = min(COLUMNS, len(there))
    rows = -(-len(there) // columns)
    with style():
        drawing = Figure(
            figsize=(8.0 / 3 * max(columns, 2), 1.9 * rows + 0.35 + 0.2 * len(names)), layout="constrained"
        )
        panels = drawing.subplots(rows, columns, squeeze=False)
        for axes, figure in zip(panels.flat, there, strict=False):
            part = table[table["figure"] == figure]
            _panel(axes, part, names)
            axes.set_title(wrapped(scale_of(figure, part["value"]).label, 2.2, size=8, lines=3), fontsize=8)
        for axes in panels.flat[len(there) :]:
            axes.set_axis_off()
        for axes in panels[-1]:
            axes.set_xlabel("Layer", fontsize=8)
        drawing.legend(handles=_legend(names), loc="outside lower center", ncols=2, fontsize=7.5)
    return drawing


def _panel(axes: Axes, table: pd.DataFrame, names: Sequence[str]) -> None:
    for index, name in enumerate(names):
        colour, marker = look(index)
        for twin in (False, True):
            rows = table[(table["arm"] == name) & (table["step"].isna() == twin)].sort_values("layer")
            layer, value, low, high = (rows[one].to_numpy(dtype=float) for one in ("layer", "value", "low", "high"))
            axes.plot(
                *(layer, value),
                color=colour,
                linestyle=TWIN_LINE if twin else "solid",
                marker="" if twin else marker,
                markersize=3.5,
                linewidth=1.1 if twin else 1.4,
                zorder=2 if twin else 3,
                gid="twin" if twin else "checkpoint",
            )
            if not twin and np.isfinite(low).any():
                axes.fill_between(layer, low, high, color=colour, alpha=0.16, linewidth=0)
    noise = table["baseline"].dropna().unique()
    if len(noise) and np.allclose(noise, noise[0], rtol=0.01, atol=0.002):
        axes.axhline(float(noise[0]), color=INK, linestyle=NOISE_LINE, linewidth=0.9, gid="noise")
    if not table["value"].notna().any():
        hatched(axes, "one point")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.tick_params(labelsize=7)
    axes.grid(visible=True, axis="y")


def _legend(names: Sequence[str]) -> list[Line2D]:
    lines = [
        Line2D([], [], color=colour, marker=marker, label=wrapped(name, 3.4, size=7.5, lines=1))
        for name, (colour, marker) in ((name, look(index)) for index, name in enumerate(names))
    ]
    return [
        *lines,
        Line2D([], [], color=INK, linestyle=TWIN_LINE, linewidth=1.1, label="its twin with random weights"),
        Line2D([], [], color=INK, linestyle=NOISE_LINE, linewidth=0.9, label="isotropic noise, same n and d"),
    ]
