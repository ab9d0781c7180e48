"""Draw attention heads: summaries over training and by head, and how well the heads of two runs agree."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from isoscope.platform.figures.maps import pictures
from isoscope.platform.figures.snapshots import (
    EVERY,
    arms_of,
    at_chosen,
    banded,
    beside,
    over_seeds,
    over_training,
    prepared,
    seeds_of,
    step_axis,
)
from isoscope.platform.figures.style import (
    INK,
    SEQUENTIAL,
    WIDTH,
    hatched,
    legend_below,
    legend_inches,
    look,
    multiples,
    named,
    shade,
    style,
    wrapped,
)
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
LINES: dict[str, Any] = {"seeds": "solid", "random": (0, (1, 1.2))}
FEW = 30
"""Below this number of sentences, an agreement of heads is an illustration."""
PAIRS = 10
"""Of more pairs of arms, only those with the first arm are drawn."""
BELOW: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "ncols": 2, "fontsize": 7}
"""A legend below a panel. Its distance is in inches, because a share of the height would change with the layout."""


@style()
def attention_curves(attention: pd.DataFrame) -> Figure:
    """Draw a row of panels per summary, a column per arm, a line per layer: mean over heads, then over seeds ± 1 sd.

    Many arms are rows (`snapshots.beside`). Layers run from dark (first) to light (last). The panels of a summary share
    their scale. The twin with random weights is left out. `attention`: columns arm, seed, step, layer, head and the
    summaries.
    """
    table = prepared(attention)
    trained = over_training(table)
    layers = sorted(table["layer"].unique())
    per_run = trained.groupby(["arm", "seed", "layer", "column"], sort=False)[list(SUMMARIES)].mean().reset_index()
    rows = {summary: wrapped(label, 1.2, size=7.5) for summary, label in SUMMARIES.items()}
    figure, panels = beside(rows, table, 7.4, across="Update", fonts=(8.5, 7.5), sharex=True, sharey="row")
    for (summary, arm), axes in panels.items():
        for place, layer in enumerate(layers):
            own = per_run[(per_run["arm"] == arm) & (per_run["layer"] == layer)]
            line = {**shade(place, len(layers)), "start": place % 3, "linewidth": 1.2, "zorder": 3}
            line |= {"within": (0.0, None if summary == "distance" else 1.0)}
            banded(axes, own, "column", summary, marks=5, alpha=0.14, **line)
        step_axis(axes, table)
        axes.yaxis.set_major_locator(MaxNLocator(4))
    handles = [Line2D([], [], label=f"layer {one}", **shade(at, len(layers))) for at, one in enumerate(layers)]
    legend_below(figure, handles, columns=min(len(layers), 6))
    return figure


def attention_heads(attention: pd.DataFrame, summary: str = "entropy") -> Figure:
    """Draw a map per arm of a summary at the chosen epoch: layer (1 at the bottom) by head, colours from 0 to 1.

    Heads of two seeds do not correspond. So the heads of a layer are sorted by value, largest first, and each rank is
    averaged over seeds. `distance` runs from 0 to the maximum of all panels.
    """
    table = prepared(attention)
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


@style()
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
    for index, (axes, (_, matrix)) in enumerate(zip(grid, panels, strict=True)):
        for axis, names in ((axes.xaxis, matrix.columns), (axes.yaxis, matrix.index)):
            every = -(-len(names) // 12)
            axis.set_ticks(range(0, len(names), every), [str(name) for name in names[::every]])
        if matrix.size <= WRITTEN:
            for (row, column), value in np.ndenumerate(matrix.to_numpy(dtype=float)):
                colour = "#101418" if value > 0.6 * axes.images[0].get_clim()[1] else "#ffffff"
                text = f"{value:.2f}" * bool(np.isfinite(value))
                axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=7)
        axes.set_xlabel(across, fontsize=8)
        axes.set_ylabel("" if index else "Layer", fontsize=8)
    return figure


@style()
def head_agreement(arm_heads: pd.DataFrame) -> Figure:
    """Draw the agreement of best-matching heads by layer, from 0 to 1.

    Left: a line per pair of arms; of more than `PAIRS` pairs, those with the first arm. Right, as controls: between
    seeds of an arm (solid), and between an arm and its twin with random weights (dotted). Mean over seeds or pairs of
    seeds, ± 1 sd. `arm_heads`: the table of that name.
    """
    arms = arms_of(arm_heads)
    between = arm_heads[arm_heads["differ"] == "arms"]
    pairs = list(dict.fromkeys(zip(between["arm"], between["other"], strict=True)))
    if len(pairs) > PAIRS:
        pairs = [pair for pair in pairs if pairs[0][0] in pair]
    keys = [_key(place, f"{one} and {other}") for place, (one, other) in enumerate(pairs)]
    controls = [_key(place, arm) for place, arm in enumerate(arms)]
    for line, text in zip(LINES.values(), ("two seeds", "its random twin"), strict=True):
        controls.append(Line2D([], [], color=INK, linestyle=line, label=text))
    legends = [legend_inches(one, BELOW["ncols"], size=BELOW["fontsize"]) for one in (keys, controls) if one]
    height = 2.5 + max(legends)
    titles = {
        one: wrapped(one, 3.3, size=8.5) for one in ("Between two arms", "Between seeds, and with the random twin")
    }
    rows = {"": f"Agreement of matched heads\n({int(arm_heads['n'].max())} sentences)"}
    figure, panels = multiples(rows, titles, (WIDTH, height), across="Layer", sharex=True, sharey=True)
    left, right = panels.values()
    for place, (arm, other) in enumerate(pairs):
        _line(left, between[(between["arm"] == arm) & (between["other"] == other)], place, "solid")
    if not pairs:
        hatched(left, "one arm")
    for (place, arm), (differ, line) in product(enumerate(arms), LINES.items()):
        _line(right, arm_heads[(arm_heads["arm"] == arm) & (arm_heads["differ"] == differ)], place, line)
    left.set_ylim(-0.02, 1.02)
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes, handles in ((left, keys), (right, controls)):
        lower = axes.transAxes + ScaledTranslation(0, -0.4, figure.dpi_scale_trans)
        axes.legend(handles=handles, bbox_transform=lower, **BELOW)
    return figure


def _key(place: int, label: str) -> Line2D:
    return Line2D([], [], markersize=3.5, label=named(label, "", 1.5, size=7).strip(", "), **look(place))


def _line(axes: Axes, rows: pd.DataFrame, place: int, line: Any) -> None:
    if len(rows):
        means = rows.groupby("layer")["agreement"].agg(["mean", "std"])
        drawn: dict[str, Any] = {"markersize": 3.5, "linestyle": line, "linewidth": 1.3, "elinewidth": 0.8}
        axes.errorbar(means.index, means["mean"], yerr=np.nan_to_num(means["std"]), **drawn | look(place))


def _agreement_caption(arm_heads: pd.DataFrame) -> str:
    n = int(arm_heads["n"].max())
    few = "With so few sentences it is an illustration. " * (n < FEW)
    return (
        f"Do different arms learn the same heads? Agreement of best-matching heads at the chosen epoch, on n = {n} "
        f"sentences. {few}Compare two arms (left; of more than ten pairs, those with the first arm) with the controls "
        "(right): two seeds of an arm, and an arm and its random twin."
    )


CURVES = View(
    name="attention",
    needs=("attention",),
    draw=attention_curves,
    caption="Where does attention go during training? A line per layer, dark (first) to light (last); mean over heads "
    "and seeds, band ± 1 sd. " + EVERY,
)
HEADS = View(
    name="heads",
    needs=("attention",),
    draw=attention_heads,
    caption="Entropy of each head's attention at the chosen epoch: 0 on a single token, 1 if uniform. Heads of a layer "
    "are sorted by entropy.",
)
AGREEMENT = View(
    name="arm_heads",
    needs=("arm_heads",),
    draw=head_agreement,
    caption=_agreement_caption,
)
