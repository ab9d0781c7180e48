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
from isoscope.figures.snapshots import TWIN, arms_of, banded, over_seeds, step_axis, steps_of, trained_seeds_of
from isoscope.figures.style import INK, WIDTH, hatched, legend_below, legend_inches, look, named, style, wrapped
from isoscope.studies.fusion.layers import of_figure
from isoscope.studies.view import Table, View

MOST = 5
"""Maximum number of layers drawn."""
SHORT = 14
"""How many letters of an arm's name fit in a panel's title."""


def geometry_curves(geometry: pd.DataFrame, figures: Sequence[str], *, vectors: str = "first") -> Figure:
    """Draw a line per arm over snapshots: mean over seeds with a band of ± 1 sd; isotropic noise dashed.

    Rows of panels are `figures`; columns are up to `MOST` layers, evenly spaced, including the first and last. The
    panels of a row share their scale. In degenerate cells, where vectors are shared, an arm has no line, and the title
    says so. The twin with random weights is left out. Raises `ValueError` for two studies, and for a metric that was
    not measured on `vectors`.
    """
    tables = {figure: of_figure(geometry, figure, vectors) for figure in figures}
    if not tables:
        raise ValueError("figures: none named")
    everything = pd.concat(tables.values(), ignore_index=True)
    arms, shown = arms_of(everything), sorted(int(layer) for layer in everything["layer"].unique())
    spread = np.linspace(0, len(shown) - 1, min(MOST, len(shown))).round().astype(int)
    shown = [shown[at] for at in np.unique(spread)]
    with style():
        handles = _legend(everything, arms)
        height = 1.45 * len(tables) + 0.6 + legend_inches(handles, 2)
        drawing = Figure(figsize=(WIDTH, height), layout="constrained")
        panels = drawing.subplots(len(tables), len(shown), squeeze=False, sharex=True, sharey="row")
        for row, (figure, table) in zip(panels, tables.items(), strict=True):
            for axes, layer in zip(row, shown, strict=True):
                trained = table[(table["layer"] == layer) & (table["column"] != TWIN)]
                _panel(axes, trained, arms)
                step_axis(axes, steps_of(everything))
                axes.tick_params(labelsize=7)
                axes.yaxis.set_major_locator(MaxNLocator(4))
                axes.grid(visible=True, axis="y")
            row[0].set_ylabel(wrapped(scale_of(figure, table["value"]).label, 1.35, size=7.5, lines=3), fontsize=7.5)
        for axes, layer in zip(panels[0], shown, strict=True):
            flat = everything[everything["layer"] == layer].groupby("arm", sort=False)["degenerate"].all()
            names = ", ".join(arm if len(arm) <= SHORT else f"{arm[: SHORT - 1]}…" for arm in flat.index[flat])
            note = wrapped(f"vectors shared: {names}", 5.6 / len(shown), size=8, lines=3) if names else ""
            axes.set_title(f"Layer {layer}\n{note}".strip(), fontsize=8 if note else 8.5)
        for axes in panels[-1]:
            axes.set_xlabel("Update", fontsize=8)
        legend_below(drawing, handles, columns=2)
    return drawing


def _panel(axes: Axes, table: pd.DataFrame, arms: Sequence[str]) -> None:
    """Draw the lines of a metric at a layer."""
    baselines = table.groupby("arm", sort=False)["baseline"].mean()
    alike = baselines.notna().all() and np.allclose(baselines, baselines.iloc[:1].to_numpy(), rtol=0.01, atol=0.002)
    for index, arm in enumerate(arms):
        rows = table[table["arm"] == arm]
        degenerate = set(rows.loc[rows["degenerate"], "column"])
        colour, marker = look(index)
        means = over_seeds(rows, ["column"], "value")
        means = means.assign(mean=means["mean"].where(~means["column"].isin(degenerate)))
        line: dict[str, Any] = {"color": colour, "marker": marker, "linewidth": 1.3, "zorder": 3, "gid": "mean"}
        banded(axes, means, "column", marks=8, alpha=0.16, **line)
        if not alike and np.isfinite(baselines.get(arm, np.nan)):
            axes.axhline(baselines[arm], color=colour, linestyle=(0, (4, 2)), linewidth=0.9, gid="noise")
    if alike and len(baselines):
        axes.axhline(baselines.iloc[0], color=INK, linestyle=(0, (4, 2)), linewidth=0.9, gid="noise")
    if len(table) and table["degenerate"].all():
        hatched(axes, "vectors shared")


def _legend(table: pd.DataFrame, arms: Sequence[str]) -> list[Line2D]:
    handles = []
    for index, arm in enumerate(arms):
        colour, marker = look(index)
        own = table[table["arm"] == arm]
        points = "–".join(str(n) for n in sorted({own["n"].min(), own["n"].max()}))
        label = named(arm, f"{trained_seeds_of(own)}, {points} points", 2.8, size=7.5)
        handles.append(Line2D([], [], color=colour, marker=marker, label=label))
    return [
        *handles,
        Line2D([], [], color=INK, linestyle=(0, (4, 2)), linewidth=0.9, label="isotropic noise, same n and d"),
    ]


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
