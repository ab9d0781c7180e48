"""Draw persistence diagrams and barcodes of [CLS] at the last layer, at a few moments of training."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isoscope.platform.figures.snapshots import MOMENTS
from isoscope.platform.figures.style import (
    ARM_COLOURS,
    INK,
    WIDTH,
    hatched,
    legend_below,
    multiples,
    named,
    style,
    wrapped,
)
from isoscope.studies.view import View

CALLED = {"random": "random twin", **MOMENTS, "last": "last snapshot"}
BESIDE = {"random": "its twin with random weights", "chosen": "the checkpoint"}
"""Names of the moments of a checkpoint: it has no training."""
LOOKS: dict[int, dict[str, Any]] = {
    0: {"color": ARM_COLOURS[0], "marker": "o", "label": "H0: components"},
    1: {"color": ARM_COLOURS[1], "marker": "^", "label": "H1: loops"},
}
LONGEST = 40
"""Maximum number of bars of a degree in a barcode, longest first."""
UNIT = "distances in units of the points' root mean squared distance from their mean"


def persistence_diagrams(bars: pd.DataFrame) -> Figure:
    """Draw birth and death of every bar: a row per arm (its first seed), a column per moment, a common scale.

    Point clouds are scaled to a root mean squared distance of 1 from their mean, so that size has no effect. A moment
    whose points are all equal has no bars and is hatched. `bars`: columns arm, seed, moment, degree, birth, death.
    """
    handles = [Line2D([], [], linestyle="", markersize=4, **look) for look in LOOKS.values()]
    return _grid(bars, _diagram, "Birth", "Death", handles)


def barcodes(bars: pd.DataFrame) -> Figure:
    """Draw the longest `LONGEST` bars of each degree from birth to death, in the layout of `persistence_diagrams`."""
    handles = [Line2D([], [], color=look["color"], label=look["label"]) for look in LOOKS.values()]
    return _grid(bars, _barcode, "Distance", "Bars by length", handles)


@style()
def _grid(bars: pd.DataFrame, draw: Any, across: str, up: str, handles: list[Line2D]) -> Figure:
    of_checkpoints, reach = "checkpoint" in bars, float(bars["death"].max()) * 1.05
    bars = bars.assign(arm=bars["checkpoint"], seed=0) if of_checkpoints else bars
    bars = bars[bars["seed"] == bars.groupby("arm")["seed"].transform("first")]
    rows = {
        arm: f"{named(arm, '' if of_checkpoints else f'seed {seed}', 1.5, size=8)}\n{up}"
        for arm, seed in bars.groupby("arm", sort=False)["seed"].first().items()
    }
    moments = BESIDE if of_checkpoints else CALLED
    columns = {one: wrapped(moments[one], 1.9, size=8.5) for one in moments if (bars["moment"] == one).any()}
    size = (min(WIDTH, 1.9 * len(columns) + 1.2), 1.7 * len(rows) + 0.8)
    figure, panels = multiples(rows, columns, size, across=across, grid=None, sharex=True, sharey=draw is _diagram)
    for (arm, moment), axes in panels.items():
        shown = bars[(bars["arm"] == arm) & (bars["moment"] == moment)]
        draw(axes, shown, reach)
        if shown.empty:
            hatched(axes, "one point")
    legend_below(figure, handles, columns=2, title=UNIT, title_fontsize=7)
    return figure


def _diagram(axes: Axes, bars: pd.DataFrame, reach: float) -> None:
    axes.plot([0, reach], [0, reach], color=INK, linewidth=0.7, zorder=1)
    for degree, look in LOOKS.items():
        rows = bars[bars["degree"] == degree]
        axes.scatter(rows["birth"], rows["death"], s=9, alpha=0.7, linewidth=0, zorder=2 + degree, **look)
    axes.set(xlim=(-0.03 * reach, reach), ylim=(-0.03 * reach, reach), aspect="equal")


def _barcode(axes: Axes, bars: pd.DataFrame, reach: float) -> None:
    at = 0
    for degree, look in LOOKS.items():
        rows = bars[bars["degree"] == degree]
        rows = rows.assign(length=rows["death"] - rows["birth"]).nlargest(LONGEST, "length")
        places = at + np.arange(len(rows))
        axes.hlines(places, rows["birth"], rows["death"], color=look["color"], linewidth=1.0, gid=f"H{degree}")
        at += len(rows) + 3
    axes.set(xlim=(0, reach), ylim=(-2, max(at, 1)))
    axes.set_yticks([])


DIAGRAMS = View(
    name="bars",
    needs=("bars",),
    draw=persistence_diagrams,
    caption="Persistence diagrams of [CLS] at the last layer, point clouds scaled to equal size; first seed of each "
    "arm. Points far above the diagonal persist long.",
)
BARCODES = View(
    name="barcodes",
    needs=("bars",),
    draw=barcodes,
    caption="The longest bars of the persistence diagrams above. A long bar is a feature that persists.",
)
