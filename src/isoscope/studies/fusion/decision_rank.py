"""Draw SUFO's views: how many directions [CLS] spans, and how many of them the decision needs."""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from isoscope.platform.figures.snapshots import (
    EVERY,
    SHARE,
    banded,
    beside,
    ends,
    moments_of,
    over_seeds,
    over_training,
    prepared,
    step_axis,
)
from isoscope.platform.figures.style import INK, hatched, legend_below, legend_inches, shade, style, wrapped
from isoscope.studies.fusion.layers import why_hatched
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
WHOLE: dict[str, Any] = {"color": INK, "linestyle": (0, (4, 2)), "linewidth": 0.9}


@style()
def singular_spectra(values: pd.DataFrame, *, vectors: str = "first") -> Figure:
    """Draw singular values over the largest, by their number: a line per layer, dark to light.

    A row per moment, a column per arm (many arms are rows). Mean over seeds; both axes are logarithmic and the same in
    all panels. Degenerate layers are left out. Raises `ValueError` without rows for `vectors`.
    """
    whole = prepared(values[values["vectors"] == vectors])
    table = ends(whole)
    moments = moments_of(table)
    table = table[~table["degenerate"]]
    layers = sorted(table["layer"].unique())
    rows = {moment: f"{wrapped(called, 1.7, size=7.5)}\nvalue / largest" for moment, called in moments.items()}
    most = max(2, int(whole["component"].max()))
    figure, panels = _grid(rows, whole, "Component")
    for (moment, arm), axes in panels.items():
        own = table[(table["arm"] == arm) & (table["moment"] == moment)]
        for place, layer in enumerate(layers):
            one = over_seeds(own[own["layer"] == layer], ["component"], "value").sort_values("component")
            line = {"markersize": 3, "markevery": max(1, len(one) // 5), "linewidth": 1.2}
            axes.plot(one["component"], one["mean"], **shade(place, len(layers)) | line)
        if own.empty:
            hatched(axes, "vectors shared")
        axes.set(xscale="log", yscale="log", xlim=(0.9, most * 1.1), ylim=(SMALLEST, 1.4))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(10))
            axis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.set_minor_formatter(NullFormatter())
        axes.set_xticks([one for one in (1, 2, 5, 10, 20, 50) if one <= most])
    if layers:
        _legend(figure, [f"layer {one}" for one in layers])
    return figure


@style()
def rank_curves(ranks: pd.DataFrame) -> Figure:
    """Draw the accuracy of the head on [CLS] rebuilt from components: a line per k, dark to light.

    Rows: only the first k components, all but these, only the k-th. A column per arm (many arms are rows); mean over
    seeds ± 1 sd, from 0 to 1. Dashed: the whole model.
    """
    whole = prepared(ranks)
    table = over_training(whole)
    counts = sorted(int(k) for k in table["k"].unique() if k > 0)
    rows = {one: f"{label}:\naccuracy" for one, label in COMPONENTS.items() if (table["components"] == one).any()}
    figure, panels = _grid(rows, whole, "Update")
    for (components, arm), axes in panels.items():
        own = table[table["arm"] == arm]
        model = own[(own["components"] == "dropped") & (own["k"] == 0)].groupby("column")["accuracy"].mean()
        axes.plot(model.index, model, gid="whole", **WHOLE)
        for place, k in enumerate(counts):
            one = own[(own["components"] == components) & (own["k"] == k)]
            banded(
                axes,
                one,
                "column",
                "accuracy",
                marks=5,
                alpha=0.14,
                linewidth=1.2,
                within=SHARE,
                **shade(place, len(counts)),
            )
        step_axis(axes, table)
        axes.set_ylim(-0.02, 1.02)
        axes.yaxis.set_major_locator(MaxNLocator(4))
    _legend(figure, [f"k = {k}" for k in counts], Line2D([], [], label="whole model", **WHOLE))
    return figure


def _grid(rows: dict[str, str], table: pd.DataFrame, across: str) -> tuple[Figure, dict[Any, Any]]:
    return beside(rows, table, 1.75 * len(rows) + 0.9, across=across, fonts=(8.5, 7.5), sharex=True, sharey=True)


def _legend(figure: Figure, labels: list[str], *more: Line2D) -> None:
    handles = [Line2D([], [], markersize=3, label=one, **shade(at, len(labels))) for at, one in enumerate(labels)]
    handles += more
    columns = min(len(handles), 6, int(figure.get_figwidth() / LABEL))
    figure.set_figheight(figure.get_figheight() + legend_inches(handles, columns) - legend_inches(handles[:1], 1))
    legend_below(figure, handles, columns=columns)


def _spectra_caption(values: pd.DataFrame) -> str:
    return (
        "Does [CLS] lose rank during training? Singular values over the largest, a line per layer. A steeper line: "
        f"fewer directions carry the variance. Values below {SMALLEST:g} are left out."
        + why_hatched(values, "Layers without a line")
    )


SINGULAR_VALUES = View(
    name="singular_values",
    needs=("singular_values",),
    draw=singular_spectra,
    caption=_spectra_caption,
)
RANKS = View(
    name="ranks",
    needs=("ranks",),
    draw=rank_curves,
    caption="How many principal components of [CLS] does the decision need? Score of the head on [CLS] rebuilt from k "
    "components, over training; dashed: from all components. " + EVERY,
)
