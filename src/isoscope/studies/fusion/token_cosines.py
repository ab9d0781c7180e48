"""Draw cosines between tokens after the embedding block."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isoscope.figures.maps import pictures
from isoscope.figures.snapshots import MOMENTS, arms_of, ends, moments_of, over_seeds, prepared, seeds_of
from isoscope.figures.style import DIVERGING, INK, WIDTH, legend_below, look, named, style
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


def cosine_maps(panels: Sequence[tuple[str, npt.ArrayLike]], *, tokens: Sequence[str] | None = None) -> Figure:
    """Draw cosines between the same tokens in several models: a square matrix per model, colours from −1 to 1.

    `panels`: (title, matrix); a title's second line is the mean off the diagonal. `tokens`: their texts, for up to 40.
    Raises `ValueError` for a matrix that is not square, differs in size from the first, or exceeds −1 … 1.
    """
    matrices = [(title, np.asarray(matrix, dtype=float)) for title, matrix in panels]
    if not matrices:
        raise ValueError("nothing to draw: no matrix given")
    n = len(matrices[0][1])
    drawn = []
    for title, matrix in matrices:
        if matrix.shape != (n, n) or n < 2:
            raise ValueError(f"{title}: expected [{n}, {n}] of two tokens or more, got {list(matrix.shape)}")
        if np.nanmax(np.abs(matrix), initial=0.0) > 1 + 1e-4:
            raise ValueError(f"{title}: cosines lie between −1 and 1")
        off = matrix[~np.eye(n, dtype=bool)]
        off = off[np.isfinite(off)]
        mean = f"mean {off.mean():.2f}".replace("-0.00", "0.00").replace("-", "−") if off.size else "no number"
        drawn.append((f"{title}\n{mean}", matrix))
    label = "Cosine of two tokens\n(mean: off the diagonal)"
    figure, grid = pictures(drawn, label=label, low=-1.0, high=1.0, colours=DIVERGING)
    with style():
        for index, axes in enumerate(grid):
            if tokens is not None and n <= 40:
                axes.set_xticks(range(n), tokens, rotation=90)
                axes.set_yticks(range(n), tokens if index == 0 else [""] * n)
            else:
                axes.set_xlabel("Token", fontsize=8)
        if tokens is None or n > 40:
            grid[0].set_ylabel("Token", fontsize=8)
    return figure


def cosine_summary(cosines: pd.DataFrame) -> Figure:
    """Draw mean cosine by kind of pair, a panel per part of the block. Hollow: first snapshot; filled: chosen epoch.

    A row per kind and arm, mean over seeds ± 1 sd. Raises `ValueError` for two studies.
    """
    table = ends(prepared(cosines, "part", "pairs", "cosine"))
    arms, parts = arms_of(table), [part for part in PARTS if part in set(table["part"])]
    means = over_seeds(table, ["arm", "part", "pairs", "moment"], "cosine").set_index(
        ["part", "pairs", "arm", "moment"]
    )
    step = 0.72 / max(len(arms), 1)
    with style():
        figure = Figure(
            figsize=(WIDTH, max(2.0, 0.62 * len(PAIRS), 0.17 * len(PAIRS) * len(arms)) + 0.95), layout="constrained"
        )
        panels = figure.subplots(1, len(parts), squeeze=False, sharex=True, sharey=True)[0]
        for axes, part in zip(panels, parts, strict=True):
            for row, kind in enumerate(PAIRS):
                for index, arm in enumerate(arms):
                    y = row + (index - (len(arms) - 1) / 2) * step
                    _pair(axes, means, (part, kind, arm), y, index)
            axes.axvline(0, color=INK, linewidth=0.6, alpha=0.5)
            axes.set_title(PARTS[part], fontsize=8.5)
            axes.set_xlabel("Mean cosine", fontsize=8)
            axes.tick_params(labelsize=7)
            axes.grid(visible=True, axis="x")
        panels[0].set_yticks(range(len(PAIRS)), PAIRS.values())
        panels[0].set(ylim=(len(PAIRS) - 0.5, -0.5), xlim=(min(-0.1, means["mean"].min() - 0.05), 1.05))
        legend_below(figure, _legend(table, arms), columns=3)
    return figure


def _pair(axes: Axes, means: pd.DataFrame, place: tuple[str, str, str], y: float, index: int) -> None:
    """Draw an arm's two points and the line between them."""
    colour, marker = look(index)
    found = [means.loc[(*place, moment)] if (*place, moment) in means.index else None for moment in ("first", "chosen")]
    if found[0] is not None and found[1] is not None:
        axes.plot([found[0]["mean"], found[1]["mean"]], [y, y], color=colour, linewidth=0.9, alpha=0.6)
    for one, fill, size in zip(found, ("none", colour), (5.2, 3.2), strict=True):
        if one is not None:
            axes.errorbar(
                *(one["mean"], y),
                xerr=np.nan_to_num(one["sd"]) or None,
                color=colour,
                marker=marker,
                markersize=size,
                markerfacecolor=fill,
                elinewidth=0.9,
            )


def _legend(table: pd.DataFrame, arms: Sequence[str]) -> list[Line2D]:
    handles = []
    for index, arm in enumerate(arms):
        colour, marker = look(index)
        label = named(arm, seeds_of(table[table["arm"] == arm]), 2.0, size=7.5)
        handles.append(Line2D([], [], color=colour, marker=marker, linestyle="", label=label))
    for moment, name in moments_of(table).items():
        fill, size = ("none", 5.2) if moment == "first" else (INK, 3.2)
        handles.append(
            Line2D([], [], color=INK, marker="o", markersize=size, markerfacecolor=fill, linestyle="", label=name)
        )
    return handles


def _drawn_maps(maps: pd.DataFrame) -> Figure:
    return cosine_maps([(arm, np.stack(list(rows))) for arm, rows in maps.groupby("arm", sort=False)["cosines"]])


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
