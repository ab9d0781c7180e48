"""Draw the evidence behind a map of tokens: their nearest neighbours, and what a linear map decodes."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isoscope.figures.snapshots import arms_of, ends, moments_of, over_seeds, prepared, seeds_of
from isoscope.figures.style import INK, WIDTH, legend_below, look, named, style
from isoscope.studies.view import View

PANELS = {
    "same word": "Neighbours:\nthe same word",
    "same position": "Neighbours:\nthe same position",
    "word": "Decoded linearly:\nthe word",
    "position": "Decoded linearly:\nthe position",
}


def embedding_evidence(neighbours: pd.DataFrame, decoding: pd.DataFrame) -> Figure:
    """Draw, for tokens after the block's LayerNorm, the share of alike nearest neighbours and the share decoded.

    A panel per quantity from 0 to 1, a row per arm: hollow at the first snapshot, filled at the chosen epoch; mean over
    seeds ± 1 sd. A stroke marks chance (for decoding: a map learned from shuffled pairs). Raises `ValueError` for two
    studies, or if a table is empty.
    """
    columns = ["arm", "seed", "step", "best", "kind", "rate", "chance", *({"checkpoint"} & {*neighbours})]
    parts = [
        prepared(neighbours, "neighbours", "rate").assign(kind=neighbours["neighbours"]),
        prepared(decoding, "read", "rate", "control").assign(kind=decoding["read"], chance=decoding["control"]),
    ]
    table = ends(pd.concat([part[part["part"] == "normed"][[*columns, "column"]] for part in parts]))
    arms = arms_of(table)
    with style():
        figure = Figure(figsize=(WIDTH, 1.9 + 0.24 * len(arms)), layout="constrained")
        for axes, (kind, title) in zip(figure.subplots(1, len(PANELS), sharey=True), PANELS.items(), strict=True):
            _panel(axes, table[table["kind"] == kind], arms)
            axes.set_title(title, fontsize=8.5)
        figure.get_axes()[0].set_yticks(range(len(arms)), [named(arm, "", 1.4) for arm in arms])
        figure.get_axes()[0].set_ylim(len(arms) - 0.5, -0.5)
        handles = [
            Line2D([], [], color=INK, marker="o", markerfacecolor=fill, linestyle="", label=name)
            for fill, name in zip(("none", INK), moments_of(table).values(), strict=True)
        ]
        handles.append(Line2D([], [], color=INK, marker="|", markersize=9, linestyle="", label="chance"))
        legend_below(figure, handles, columns=3, title=seeds_of(table), title_fontsize=7)
    return figure


def _panel(axes: Axes, table: pd.DataFrame, arms: list[str]) -> None:
    means = {value: over_seeds(table, ["arm", "moment"], value) for value in ("rate", "chance")}
    for row, arm in enumerate(arms):
        colour, marker = look(row)
        chance = means["chance"][means["chance"]["arm"] == arm]["mean"]
        axes.plot(chance, [row] * len(chance), color=INK, marker="|", markersize=9, linestyle="", gid="chance")
        for moment, fill, size in (("first", "none", 6.0), ("chosen", colour, 4.0)):
            one = means["rate"][(means["rate"]["arm"] == arm) & (means["rate"]["moment"] == moment)]
            axes.errorbar(
                *(one["mean"], [row] * len(one)),
                xerr=one["sd"].fillna(0.0),
                color=colour,
                marker=marker,
                markersize=size,
                markerfacecolor=fill,
                linestyle="",
                elinewidth=0.9,
            )
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel("Share of tokens", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(visible=True, axis="x")


EVIDENCE = View(
    name="evidence",
    needs=("neighbours", "decoding"),
    draw=embedding_evidence,
    caption="Do tokens keep their word and position after the embedding block? Share of nearest neighbours in the full "
    "space with the same word or position; share that a linear map decodes. Strokes: chance.",
)
