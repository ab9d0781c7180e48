"""Draw summaries of attention, over training and by head."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from isoscope.figures.maps import pictures
from isoscope.figures.snapshots import (
    TWIN,
    arms_of,
    at_chosen,
    banded,
    over_seeds,
    prepared,
    seeds_of,
    step_axis,
    steps_of,
    trained_seeds_of,
)
from isoscope.figures.style import ARM_MARKERS, SEQUENTIAL, WIDTH, legend_below, named, style, wrapped
from isoscope.studies.view import View

SUMMARIES = {
    "entropy": "Entropy, 1 if uniform",
    "distance": "Distance (tokens)",
    "first": "Share on the first token",
    "last": "Share on the last token",
    "itself": "Share on itself",
}
LABELS = SUMMARIES | {
    "agreement": "Agreement with the chosen epoch",
    "between": "Agreement with the layer's other heads",
}
WRITTEN = 36
"""Up to this number of cells, each has room for its value."""


def attention_curves(attention: pd.DataFrame) -> Figure:
    """Draw a row of panels per summary, a column per arm, a line per layer: mean over heads, then over seeds ± 1 sd.

    Layers run from dark (first) to light (last). The panels of a row share their scale. The twin with random weights is
    left out. `attention`: table of a single study with columns arm, seed, step, layer, head and the summaries. Raises
    `ValueError` for two studies.
    """
    table = prepared(attention, "layer", "head", *SUMMARIES)
    table = table[table["column"] != TWIN]
    arms, layers = arms_of(table), sorted(int(layer) for layer in table["layer"].unique())
    per_run = table.groupby(["arm", "seed", "layer", "column"], sort=False)[list(SUMMARIES)].mean().reset_index()
    with style():
        figure = Figure(figsize=(max(3.4, min(WIDTH, 2.4 * len(arms) + 0.7)), 7.4), layout="constrained")
        panels = figure.subplots(len(SUMMARIES), len(arms), squeeze=False, sharex=True, sharey="row")
        for row, (summary, label) in zip(panels, SUMMARIES.items(), strict=True):
            means = over_seeds(per_run, ["arm", "layer", "column"], summary)
            for axes, arm in zip(row, arms, strict=True):
                _curves(axes, means[means["arm"] == arm], layers)
                step_axis(axes, steps_of(table))
                axes.tick_params(labelsize=7)
                axes.yaxis.set_major_locator(MaxNLocator(4))
                axes.grid(visible=True, axis="y")
            row[0].set_ylabel(wrapped(label, 1.2, size=7.5), fontsize=7.5)
        for axes, arm in zip(panels[0], arms, strict=True):
            title = named(
                arm, trained_seeds_of(table[table["arm"] == arm]), (figure.get_figwidth() - 1.0) / len(arms), size=8.5
            )
            axes.set_title(title, fontsize=8.5)
        for axes in panels[-1]:
            axes.set_xlabel("Update", fontsize=8)
        looks = {layer: _look(layer, layers) for layer in layers}
        handles = [
            Line2D([], [], color=colour, marker=marker, label=f"layer {layer}")
            for layer, (colour, marker) in looks.items()
        ]
        legend_below(figure, handles, columns=min(len(layers), 6))
    return figure


def _look(layer: int, layers: Sequence[int]) -> tuple[str, str]:
    place = layers.index(layer)
    shade = 0.12 + 0.76 * place / max(len(layers) - 1, 1)
    return to_hex(colormaps[SEQUENTIAL](shade)), ARM_MARKERS[place % len(ARM_MARKERS)]


def _curves(axes: Axes, means: pd.DataFrame, layers: Sequence[int]) -> None:
    for place, layer in enumerate(layers):
        rows, (colour, marker) = means[means["layer"] == layer], _look(layer, layers)
        line: dict[str, Any] = {"color": colour, "marker": marker, "linewidth": 1.2, "zorder": 3}
        banded(axes, rows, "column", marks=5, alpha=0.14, start=place % 3, **line)


def attention_heads(attention: pd.DataFrame, summary: str = "entropy") -> Figure:
    """Draw a map per arm of a summary at the chosen epoch: layer (1 at the bottom) by head, colours from 0 to 1.

    Heads of two seeds do not correspond. So the heads of a layer are sorted by value, largest first, and each rank is
    averaged over seeds. `distance` runs from 0 to the maximum of all panels. Raises `ValueError` for two studies.
    """
    table = prepared(attention, "layer", "head", "best", summary)
    at_best = at_chosen(table.assign(**{summary: table[summary].astype(float)}))
    heads = at_best.groupby(["arm", "seed", "layer"])[summary]
    rank = heads.rank(method="first", ascending=False, na_option="bottom")
    means = over_seeds(at_best.assign(rank=rank.astype(int)), ["arm", "layer", "rank"], summary)
    panels = [
        (f"{arm}\n{seeds_of(table[table['arm'] == arm])}", own.pivot(index="layer", columns="rank", values="mean"))
        for arm, own in means.groupby("arm", sort=False)
    ]
    high = float(np.nanmax(means["mean"], initial=0.0)) or 1.0
    return head_maps(panels, summary, high=high, across="Head, by rank in its layer")


def head_maps(panels: Sequence[tuple[str, pd.DataFrame]], summary: str, *, high: float, across: str = "Head") -> Figure:
    """Draw a map of a summary for each (title, layers by heads): layer 1 at the bottom, colours from 0 to 1.

    `distance` runs from 0 to `high`.
    """
    figure, grid = pictures(
        [(title, matrix.to_numpy(dtype=float)) for title, matrix in panels],
        label=LABELS[summary],
        low=0.0,
        high=high if summary == "distance" else 1.0,
        colours=SEQUENTIAL,
        origin="lower",
        aspect="auto",
    )
    with style():
        for index, (axes, (_, matrix)) in enumerate(zip(grid, panels, strict=True)):
            for axis, names in ((axes.xaxis, matrix.columns), (axes.yaxis, matrix.index)):
                every = -(-len(names) // 12)
                axis.set_ticks(range(0, len(names), every), [str(name) for name in names[::every]])
            if matrix.size <= WRITTEN:
                for (row, column), value in np.ndenumerate(matrix.to_numpy(dtype=float)):
                    colour = "#101418" if value > 0.6 * axes.images[0].get_clim()[1] else "#ffffff"
                    axes.text(
                        column,
                        row,
                        f"{value:.2f}" * bool(np.isfinite(value)),
                        ha="center",
                        va="center",
                        color=colour,
                        fontsize=7,
                    )
            axes.set_xlabel(across, fontsize=8)
            axes.set_ylabel("" if index else "Layer", fontsize=8)
    return figure


CURVES = View(
    name="attention",
    needs=("attention",),
    draw=attention_curves,
    caption="Where does attention go during training? A line per layer, dark (first) to light (last); mean over heads "
    "and seeds, band ± 1 sd.",
)
HEADS = View(
    name="heads",
    needs=("attention",),
    draw=attention_heads,
    caption="Entropy of each head's attention at the chosen epoch: 0 on a single token, 1 if uniform. Heads of a layer "
    "are sorted by entropy.",
)
