"""Draw cosines between tokens after the embedding block."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isoscope.platform.figures.maps import pictures
from isoscope.platform.figures.snapshots import MOMENTS, arms_of, ends, keys, moments_of, over_seeds, prepared
from isoscope.platform.figures.style import DIVERGING, INK, WIDTH, legend_below, look, multiples, style
from isoscope.studies.view import View

PARTS = {
    "word": "Word embedding",
    "position": "Position embedding",
    "fused": "Fused",
    "normed": "Fused, normalised",
}
PAIRS = {
    "all": "all pairs",
    "same position": "same position,\nother word",
    "same word": "same word,\nother position",
    "neither": "neither, not\nneighbours",
}
MARKS: dict[str, dict[str, Any]] = {
    "first": {"markersize": 5.2, "markerfacecolor": "none"},
    "chosen": {"markersize": 3.2},
}


@style()
def cosine_maps(
    panels: Sequence[tuple[str, npt.NDArray[np.float64]]], *, tokens: Sequence[str] | None = None
) -> Figure:
    """Draw cosines between the same tokens in several models: a square matrix per model, colours from −1 to 1.

    `panels`: (title, matrix); a title's second line is the mean off the diagonal. `tokens`: their texts, for up to 40.
    """
    n, drawn = len(panels[0][1]), []
    for title, matrix in panels:
        off = matrix[~np.eye(n, dtype=bool)]
        off = off[np.isfinite(off)]
        mean = f"mean {off.mean():.2f}".replace("-0.00", "0.00").replace("-", "−") if off.size else "no number"
        drawn.append((f"{title}\n{mean}", matrix))
    label = "Cosine of two tokens\n(mean: off the diagonal)"
    figure, grid = pictures(drawn, label=label, low=-1.0, high=1.0, colours=DIVERGING)
    for index, axes in enumerate(grid):
        if tokens is not None and n <= 40:
            axes.set_xticks(range(n), tokens, rotation=90)
            axes.set_yticks(range(n), tokens if index == 0 else [""] * n)
        else:
            axes.set_xlabel("Token", fontsize=8)
            axes.set_ylabel("" if index else "Token", fontsize=8)
    return figure


@style()
def cosine_summary(cosines: pd.DataFrame) -> Figure:
    """Draw mean cosine by kind of pair, a panel per part of the block. Hollow: first snapshot; filled: chosen epoch.

    A row per kind and arm, mean over seeds ± 1 sd.
    """
    table = ends(prepared(cosines))
    arms, parts = arms_of(table), {part: label for part, label in PARTS.items() if part in set(table["part"])}
    means = over_seeds(table, ["part", "pairs", "arm", "moment"], "cosine")
    step = 0.72 / max(len(arms), 1)
    size = (WIDTH, max(2.0, 0.62 * len(PAIRS), 0.17 * len(PAIRS) * len(arms)) + 0.95)
    figure, panels = multiples({"": ""}, parts, size, across="Mean cosine", grid="x", sharex=True, sharey=True)
    for (_, part), axes in panels.items():
        of_part = means[means["part"] == part].set_index(["pairs", "arm", "moment"])
        for (row, kind), (index, arm) in product(enumerate(PAIRS), enumerate(arms)):
            y = row + (index - (len(arms) - 1) / 2) * step
            both = of_part.loc[[place for place in product([kind], [arm], MARKS) if place in of_part.index]]
            if len(both) == 2:
                axes.plot(both["mean"], [y, y], color=look(index)["color"], linewidth=0.9, alpha=0.6)
            for (_, _, moment), one in both.iterrows():
                error = np.nan_to_num(one["sd"]) or None
                axes.errorbar(one["mean"], y, xerr=error, elinewidth=0.9, **look(index) | MARKS[moment])
        axes.axvline(0, color=INK, linewidth=0.6, alpha=0.5)
        axes.set_yticks(range(len(PAIRS)), PAIRS.values())
    axes.set(ylim=(len(PAIRS) - 0.5, -0.5), xlim=(min(-0.1, means["mean"].min() - 0.05), 1.05))
    handles = keys(table, 2.0, linestyle="")
    filled: dict[str, Any] = {"color": INK, "markerfacecolor": INK, "marker": "o", "linestyle": ""}
    handles += [Line2D([], [], label=name, **filled | MARKS[moment]) for moment, name in moments_of(table).items()]
    legend_below(figure, handles, columns=3)
    return figure


def _drawn_maps(maps: pd.DataFrame) -> Figure:
    return cosine_maps(
        [(arm, np.stack(list(rows)).astype(float)) for arm, rows in maps.groupby("arm", sort=False)["cosines"]]
    )


COSINE_MAPS = View(
    name="cosines",
    needs=("cosine_maps",),
    by="moment",
    draw=_drawn_maps,
    caption="Cosines between the same tokens in each arm after the embedding block ({}), colours from −1 to 1.",
    called=MOMENTS,
    remakes="Li 2025 (fusion), Figure 7",
)
COSINES = View(
    name="cosines",
    needs=("cosines",),
    draw=cosine_summary,
    caption="Mean cosine by kind of pair, in each part of the embedding block. Hollow: first snapshot; filled: chosen "
    "epoch.",
)
