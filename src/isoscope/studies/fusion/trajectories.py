"""Draw metrics of the geometry table over training: a row of panels per metric, a column per layer."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from isoscope.figures.scales import scale_of
from isoscope.figures.snapshots import TWIN, arms_of, banded, keys, step_axis, trained_seeds_of
from isoscope.figures.style import INK, WIDTH, hatched, legend_below, legend_inches, look, multiples, style, wrapped
from isoscope.studies.fusion.layers import of_figure
from isoscope.studies.view import Table, View

MOST = 5
"""Maximum number of layers drawn."""
SHORT = 14
"""How many letters of an arm's name fit in a panel's title."""

DASHED: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 0.9}


def geometry_curves(geometry: pd.DataFrame, figures: Sequence[str], *, vectors: str = "first") -> Figure:
    """Draw a line per arm over snapshots: mean over seeds with a band of ± 1 sd; isotropic noise dashed.

    Rows of panels are `figures`; columns are up to `MOST` layers, evenly spaced, including the first and last. The
    panels of a row share their scale. In degenerate cells, where vectors are shared, an arm has no line, and the title
    says so. The twin with random weights is left out. Raises `ValueError` for a metric that was not measured on
    `vectors`.
    """
    tables = {figure: of_figure(geometry, figure, vectors) for figure in figures}
    everything = pd.concat(tables.values(), ignore_index=True)
    layers = np.sort(everything["layer"].unique())
    shown = layers[np.unique(np.linspace(0, len(layers) - 1, min(MOST, len(layers))).round().astype(int))]
    rows = {
        figure: wrapped(scale_of(figure, table["value"]).label, 1.35, size=7.5, lines=3)
        for figure, table in tables.items()
    }
    with style():
        noise = Line2D([], [], color=INK, label="isotropic noise, same n and d", **DASHED)
        handles = [*keys(everything, 2.8, _facts), noise]
        size = (WIDTH, 1.45 * len(tables) + 0.6 + legend_inches(handles, 2))
        columns = dict.fromkeys(shown, "")
        drawing, panels = multiples(rows, columns, size, across="Update", fonts=(8.5, 7.5), sharex=True, sharey="row")
        for (figure, layer), axes in panels.items():
            table = tables[figure]
            _panel(axes, table[(table["layer"] == layer) & (table["column"] != TWIN)], arms_of(everything))
            step_axis(axes, everything)
            axes.yaxis.set_major_locator(MaxNLocator(4))
        for axes, layer in zip(panels.values(), shown, strict=False):  # the upper row
            flat = everything[everything["layer"] == layer].groupby("arm", sort=False)["degenerate"].all()
            names = ", ".join(arm if len(arm) <= SHORT else f"{arm[: SHORT - 1]}…" for arm in flat.index[flat])
            note = wrapped(f"vectors shared: {names}", 5.6 / len(shown), size=8, lines=3) if names else ""
            axes.set_title(f"Layer {layer}\n{note}".strip(), fontsize=8 if note else 8.5)
        legend_below(drawing, handles, columns=2)
    return drawing


def _panel(axes: Axes, table: pd.DataFrame, arms: Sequence[str]) -> None:
    """Draw the lines of a metric at a layer."""
    baselines = table.groupby("arm", sort=False)["baseline"].mean()
    alike = baselines.notna().all() and np.allclose(baselines, baselines.iloc[:1].to_numpy(), rtol=0.01, atol=0.002)
    for index, arm in enumerate(arms):
        rows = table[table["arm"] == arm]
        degenerate = rows["column"].isin(rows.loc[rows["degenerate"], "column"])
        rows = rows.assign(value=rows["value"].where(~degenerate))
        banded(axes, rows, "column", "value", marks=8, linewidth=1.3, zorder=3, gid="mean", **look(index))
        if not alike and np.isfinite(baselines.get(arm, np.nan)):
            axes.axhline(baselines[arm], color=look(index)["color"], gid="noise", **DASHED)
    if alike and len(baselines):
        axes.axhline(baselines.iloc[0], color=INK, gid="noise", **DASHED)
    if len(table) and table["degenerate"].all():
        hatched(axes, "vectors shared")


def _facts(own: pd.DataFrame) -> str:
    points = "–".join(str(n) for n in sorted({own["n"].min(), own["n"].max()}))
    return f"{trained_seeds_of(own)}, {points} points"


FIGURES = ("linear_separability", "a_1_within", "isoscore_unbiased", "effective_rank")


def _of_cls(geometry: pd.DataFrame) -> Table:
    return (geometry[(geometry["vectors"] == "first") & geometry["figure"].isin(FIGURES)],)


def _drawn(geometry: pd.DataFrame) -> Figure:
    return geometry_curves(geometry, [one for one in FIGURES if (geometry["figure"] == one).any()])


CURVES = View(
    name="curves",
    needs=("geometry",),
    rows=_of_cls,
    draw=_drawn,
    caption="Geometry of [CLS] over training. Line: mean over seeds; band: ± 1 sd; dashed: noise at the same n and d.",
)
