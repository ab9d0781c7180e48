"""View: how near linear maps bring one space to another."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isoscope.platform.figures.border import MARKED, mark_below
from isoscope.platform.figures.style import WIDTH, legend_below, look, style, tiles
from isoscope.studies.view import Table, View

SHOWN = {"r2": "R²", "retrieval_forward": "CSLS retrieval", "cosine_forward": "Cosine retrieval"}
MAPS = {"none": "no map", "procrustes": "rotation, scaling, shift", "ridge": "linear map"}
ROW = 0.24
LOWEST = -0.6
"""Left end of R²'s axis."""


@style()
def maps(table: pd.DataFrame) -> Figure:
    """Draw a panel per measure: a row per direction, a dot per map and pair of spaces; of R² interval and null (|)."""
    rows = list(dict.fromkeys(table["direction"]))
    figure, panels = tiles(len(SHOWN), len(SHOWN), (WIDTH, 0.8 + ROW * len(rows)), grid="x", ticks=8, sharey=True)
    for (measure, title), axes in zip(SHOWN.items(), panels, strict=True):
        for place, name in enumerate(MAPS):
            own = table[table["map"] == name]
            at = [rows.index(direction) for direction in own["direction"]]
            if measure == "r2":
                axes.hlines(at, own["low"], own["high"], color=look(place)["color"], linewidth=1.2)
                axes.plot(own["null"], at, linestyle="", marker="|", color=look(place)["color"], markersize=9)
                mark_below(axes, LOWEST, own[measure], at, colour=look(place)["color"])
            axes.plot(own[measure], at, **look(place) | {"linestyle": ""}, markersize=5, alpha=0.8)
        axes.set_title(title, fontsize=8.5)
        axes.set_xlim(LOWEST if measure == "r2" else -0.02, 1.02)
        axes.set_yticks(range(len(rows)), rows)
        axes.set_ylim(len(rows) - 0.5, -0.5)
    handles = [Line2D([], [], label=label, **look(n) | {"linestyle": ""}) for n, label in enumerate(MAPS.values())]
    legend_below(figure, handles, columns=3)
    return figure


def _rows(table: pd.DataFrame) -> Table:
    """Return the rows with their direction, such as `A → B`; twins of random weights last."""
    ends = table[["model", "other_model"]].where(~table["back"], table[["other_model", "model"]].to_numpy())
    named = ends["model"] + " → " + ends["other_model"] + table["twin"].map({True: ", random weights", False: ""})
    table = table.assign(direction=named, number=pd.factorize(table["of"])[0])
    return (table.sort_values(["number", "twin", "direction"], kind="stable", ignore_index=True),)


def _caption(table: pd.DataFrame) -> str:
    of, cut = table["of"].iloc[0], f" {MARKED}" * bool((table["r2"] < LOWEST).any())
    n = int(table["n"].min())
    return (
        f"How near a map brings the last layer of a model to that of another: {of}, of sentences that neither fitted "
        f"it (n = {int(table['n_fitted'].min()):,}) nor chose its penalty. n = {n:,}, of as many sentences. Lines: "
        "intervals over sentences; |: a map that was fitted with sentences exchanged. Retrieval: the own vector is the "
        f"nearest of all; chance is {1 / n:.4f}.{cut}"
    )


VIEWS = (
    View(
        name="maps_between_spaces",
        needs=("maps",),
        rows=_rows,
        by="number",
        draw=maps,
        caption=_caption,
        remakes="Vázquez et al. 2021, alignment of the spaces",
    ),
)
