"""Draw the geometry of checkpoints by layer, each compared with its twin with random weights."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, MultipleLocator

from isoscope.platform.figures.maps import scale_of
from isoscope.platform.figures.snapshots import arms_of
from isoscope.platform.figures.style import INK, WIDTH, hatched, layer_tick, legend_below, look, style, tiles, wrapped
from isoscope.studies.fusion.layers import SHARED

COLUMNS = 3
STRIP = 0.11
"""Height of a row of crosses, as a share of the panel's height."""
TWIN_LINE: Any = (0, (1, 1.2))
NOISE_LINE: Any = (0, (4, 2))
CHANCE: Any = (0, (6, 1.5, 1, 1.5))
LOCATOR = 0.25
"""Distance of ticks on an axis of relative depth."""
RELATIVE = "Depth (layer / number of layers)"
KEY = 0.6
"""Width in inches of a legend's line with its padding."""
NOISE = "isotropic noise, same n and d"


@style()
def geometry_by_layer(
    geometry: pd.DataFrame,
    figures: Sequence[str],
    *,
    vectors: str,
    titles: Mapping[str, str] | None = None,
    beside: str = NOISE,
) -> Figure:
    """Draw a panel per metric: value by layer, a line per checkpoint, with its interval if it has one.

    - Dotted: the checkpoint's twin with random weights.
    - Dashed: `baseline`, named by `beside`; a single line if it is the same for all, else a line per checkpoint.
    - Dash-dotted: `chance`, if the table has it.
    - Crosses in a strip at the bottom: degenerate cells, where vectors are shared and there is no value.

    `geometry`: the table with a column `checkpoint`. `titles`: metric → title; default: the title of its scale. Metrics
    that were not measured on `vectors` are left out. Checkpoints of different depth share an axis of layer / number of
    layers. Layer −1, "w", is the word table alone.
    """
    table = geometry[geometry["vectors"] == vectors].rename(columns={"checkpoint": "arm"})
    depth = table.groupby("arm")["layer"].transform("max")
    relative = depth.nunique() > 1
    at = table["layer"] / depth if relative else table["layer"]
    table = table.assign(at=at.where(table["layer"] >= 0, -LOCATOR if relative else -1))
    there = [figure for figure in figures if (table["figure"] == figure).any()]
    names, shown, margin = arms_of(table), table[table["figure"].isin(there)], 0.05 if relative else 0.3
    size = (WIDTH / 3 * min(COLUMNS, max(len(there), 2)), 1.7, 0.35, 0.2 * len(names))
    drawing, panels = tiles(len(there), COLUMNS, size, across=RELATIVE if relative else "Layer")
    for axes, figure in zip(panels, there, strict=True):
        part = table[table["figure"] == figure]
        _panel(axes, part, names)
        axes.set_xlim(table["at"].min() - margin, table["at"].max() + margin)  # also layers without a value
        axes.xaxis.set_major_locator(MultipleLocator(LOCATOR) if relative else MaxNLocator(integer=True))
        axes.xaxis.set_major_formatter(layer_tick)
        title = titles[figure] if titles else scale_of(figure, part["value"]).label
        axes.set_title(wrapped(title, 1.9, size=8, lines=3), fontsize=8)
    lines = [
        Line2D([], [], label=wrapped(name, drawing.get_figwidth() - KEY, size=7.5, lines=3), **look(index))
        for index, name in enumerate(names)
    ]
    rest: list[tuple[bool, dict[str, Any]]] = [
        (True, {"linestyle": TWIN_LINE, "linewidth": 1.1, "label": "random twin"}),
        (shown["baseline"].notna().any(), {"linestyle": NOISE_LINE, "linewidth": 0.9, "label": beside}),
        ("chance" in shown, {"linestyle": CHANCE, "linewidth": 0.9, "label": "chance: the largest class"}),
        (shown["degenerate"].any(), {"marker": "x", "linestyle": "", "label": SHARED}),
    ]
    lines += [Line2D([], [], color=INK, **line) for known, line in rest if known]
    legend_below(drawing, lines, columns=2)
    return drawing


def _panel(axes: Axes, table: pd.DataFrame, names: Sequence[str]) -> None:
    table = table.assign(value=table["value"].where(~table["degenerate"]))
    noise = table["baseline"].dropna().to_numpy(dtype=float)
    alike = bool(len(noise)) and np.allclose(noise, noise[0], rtol=0.01, atol=0.002)
    for chance in sorted(set(table["chance"].dropna())) if "chance" in table else ():
        axes.axhline(chance, color=INK, linestyle=CHANCE, linewidth=0.9, gid="chance")
    if alike:
        axes.axhline(float(noise[0]), color=INK, linestyle=NOISE_LINE, linewidth=0.9, gid="noise")
    for index, name in enumerate(names):
        colour, marker = look(index).values()
        for twin in (False, True):
            rows = table[(table["arm"] == name) & (table["step"].isna() == twin)].sort_values("layer")
            layer, value, low, high = (rows[one].to_numpy(dtype=float) for one in ("at", "value", "low", "high"))
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
        own = table[(table["arm"] == name) & table["step"].notna()].sort_values("layer")
        if not alike:
            axes.plot(*(own["at"], own["baseline"]), color=colour, linestyle=NOISE_LINE, linewidth=0.9, gid="noise")
    axes.yaxis.set_major_locator(MaxNLocator(4))
    if table["degenerate"].all():
        hatched(axes, "vectors shared")
    elif table["degenerate"].any():
        _strip(axes, table[table["degenerate"] & table["step"].notna()], names)


def _strip(axes: Axes, empty: pd.DataFrame, names: Sequence[str]) -> None:
    """Draw crosses in a strip below the values, so that no cross reads as a value: a row per checkpoint."""
    rows = [name for name in names if (empty["arm"] == name).any()]
    low, high = axes.get_ylim()
    height = STRIP * (high - low)
    axes.axhline(low, color=INK, linewidth=0.5, alpha=0.5)
    for row, name in enumerate(rows):
        layers = sorted(empty.loc[empty["arm"] == name, "at"])
        at = [low - height * (row + 0.5)] * len(layers)
        axes.plot(
            layers, at, color=look(names.index(name))["color"], marker="x", markersize=4, linestyle="", gid="degenerate"
        )
    axes.set_yticks([tick for tick in axes.get_yticks() if low <= tick <= high])
    axes.set_ylim(low - height * len(rows), high)
