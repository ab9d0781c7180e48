"""Draw SUFO's views: how many directions [CLS] spans, and how many of them the decision needs."""

from typing import Any

import pandas as pd
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from isoscope.figures.snapshots import (
    TWIN,
    arms_of,
    banded,
    ends,
    moments_of,
    over_seeds,
    prepared,
    step_axis,
    steps_of,
    trained_seeds_of,
)
from isoscope.figures.style import (
    ARM_MARKERS,
    INK,
    SEQUENTIAL,
    WIDTH,
    hatched,
    legend_below,
    legend_inches,
    named,
    style,
)
from isoscope.studies.view import View

COMPONENTS = {
    "kept": "Only the first k components",
    "dropped": "Without the first k components",
    "alone": "Only the k-th component",
}
LABEL = 0.95
"""Width in inches of a legend entry."""
SMALLEST = 1e-3
"""Lower end of a drawn spectrum, as a share of the largest singular value."""


def singular_spectra(values: pd.DataFrame, *, vectors: str = "first") -> Figure:
    """Draw singular values over the largest, by their number: a line per layer, dark to light.

    A row per moment, a column per arm. Mean over seeds; both axes are logarithmic and the same in all panels.
    Degenerate layers are left out. `values`: table of a single study. Raises `ValueError` for two studies, or without
    rows for `vectors`.
    """
    table = prepared(values[values["vectors"] == vectors], "layer", "component", "value", "degenerate")
    arms, layers = arms_of(table), sorted(int(layer) for layer in table["layer"].unique())
    kept = ends(table)
    kept = kept[~kept["degenerate"]]
    moments = moments_of(ends(table))
    most = max(2, int(table["component"].max()))
    with style():
        figure, panels = _grid(len(moments), len(arms))
        for row, (moment, called) in zip(panels, moments.items(), strict=True):
            for axes, arm in zip(row, arms, strict=True):
                own = kept[(kept["arm"] == arm) & (kept["moment"] == moment)]
                means = over_seeds(own, ["layer", "component"], "value")
                for place, layer in enumerate(layers):
                    one = means[means["layer"] == layer].sort_values("component")
                    colour, marker = _shade(place, len(layers))
                    axes.plot(
                        *(one["component"], one["mean"]),
                        color=colour,
                        marker=marker,
                        markersize=3,
                        markevery=max(1, len(one) // 5),
                        linewidth=1.2,
                    )
                if own.empty:
                    hatched(axes, "vectors shared")
                axes.set(xscale="log", yscale="log", xlim=(0.9, most * 1.1), ylim=(SMALLEST, 1.4))
                for axis in (axes.xaxis, axes.yaxis):
                    axis.set_major_locator(LogLocator(10))
                    axis.set_major_formatter(lambda value, _: f"{value:g}")
                    axis.set_minor_formatter(NullFormatter())
                axes.set_xticks([one for one in (1, 2, 5, 10, 20, 50) if one <= most])
            row[0].set_ylabel(f"{called}\nsingular value / largest", fontsize=7.5)
        _finish(figure, panels, table, arms, "Component", {f"layer {one}": place for place, one in enumerate(layers)})
    return figure


def rank_curves(ranks: pd.DataFrame, *, figure: str = "accuracy") -> Figure:
    """Draw `figure` (accuracy or macro_f1) of the head on [CLS] rebuilt from components: a line per k, dark to light.

    Rows: only the first k components, all but these, only the k-th. A column per arm; mean over seeds ± 1 sd, from 0 to
    1. Dashed: the whole model. `ranks`: table of a single study. Raises `ValueError` for two studies.
    """
    table = prepared(ranks, "components", "k", figure)
    table = table[table["column"] != TWIN]
    arms, steps = arms_of(table), steps_of(table)
    counts = sorted(int(k) for k in table["k"].unique() if k > 0)
    rows = [one for one in COMPONENTS if (table["components"] == one).any()]
    with style():
        drawing, panels = _grid(len(rows), len(arms))
        for row, components in zip(panels, rows, strict=True):
            for axes, arm in zip(row, arms, strict=True):
                own = table[table["arm"] == arm]
                means = over_seeds(own, ["components", "k", "column"], figure)
                whole = means[(means["components"] == "dropped") & (means["k"] == 0)].sort_values("column")
                axes.plot(whole["column"], whole["mean"], color=INK, linestyle=(0, (4, 2)), linewidth=0.9, gid="whole")
                for place, k in enumerate(counts):
                    one = means[(means["components"] == components) & (means["k"] == k)]
                    colour, marker = _shade(place, len(counts))
                    banded(axes, one, "column", marks=5, alpha=0.14, color=colour, marker=marker, linewidth=1.2)
                step_axis(axes, steps)
                axes.set_ylim(-0.02, 1.02)
                axes.yaxis.set_major_locator(MaxNLocator(4))
            called = {"accuracy": "accuracy", "macro_f1": "macro F1"}[figure]
            row[0].set_ylabel(f"{COMPONENTS[components]}:\n{called}", fontsize=7.5)
        _finish(
            drawing, panels, table, arms, "Update", {f"k = {k}": place for place, k in enumerate(counts)}, whole=True
        )
    return drawing


def _grid(rows: int, columns: int) -> tuple[Figure, Any]:
    figure = Figure(figsize=(max(3.4, min(WIDTH, 2.4 * columns + 0.7)), 1.75 * rows + 0.9), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)


def _shade(place: int, count: int) -> tuple[Any, str]:
    return colormaps[SEQUENTIAL](0.12 + 0.76 * place / max(count - 1, 1)), ARM_MARKERS[place % len(ARM_MARKERS)]


def _finish(
    figure: Figure,
    panels: Any,
    table: pd.DataFrame,
    arms: list[str],
    across: str,
    lines: dict[str, int],
    *,
    whole: bool = False,
) -> None:
    for axes, arm in zip(panels[0], arms, strict=True):
        facts = trained_seeds_of(table[table["arm"] == arm])
        axes.set_title(named(arm, facts, (figure.get_figwidth() - 1.0) / len(arms), size=8.5), fontsize=8.5)
    for axes in panels.flat:
        axes.tick_params(labelsize=7)
        axes.grid(visible=True, axis="y")
    for axes in panels[-1]:
        axes.set_xlabel(across, fontsize=8)
    handles = []
    for label, place in lines.items():
        colour, marker = _shade(place, len(lines))
        handles.append(Line2D([], [], color=colour, marker=marker, markersize=3, label=label))
    if whole:
        handles.append(Line2D([], [], color=INK, linestyle=(0, (4, 2)), linewidth=0.9, label="whole model"))
    columns = min(len(handles), 6, int(figure.get_figwidth() / LABEL))
    figure.set_figheight(figure.get_figheight() + legend_inches(handles, columns) - legend_inches(handles[:1], 1))
    legend_below(figure, handles, columns=columns)


SINGULAR_VALUES = View(
    name="singular_values",
    needs=("singular_values",),
    draw=singular_spectra,
    caption="Does [CLS] lose rank during training? Singular values over the largest, a line per layer. A steeper line: "
    "fewer directions carry the variance.",
)
RANKS = View(
    name="ranks",
    needs=("ranks",),
    draw=rank_curves,
    caption="How many principal components of [CLS] does the decision need? Score of the head on [CLS] rebuilt from k "
    "components, over training; dashed: from all components.",
)
