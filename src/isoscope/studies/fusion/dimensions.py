"""Draw mean and sd of each hidden dimension of the tokens after the embedding block."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from isoscope.figures.snapshots import MOMENTS, arms_of, ends, moments_of, prepared
from isoscope.figures.style import WIDTH, look, named, style
from isoscope.studies.view import View

NAMED = 6
"""How many outlying dimensions of a panel are named, farthest first; the rest are counted."""
SHAPES = 256
"""Up to this number of dimensions, each is a shape of the SVG; above it, they are rasterised."""


def hidden_dimensions(dimensions: pd.DataFrame) -> Figure:
    """Draw each dimension's mean ± 1 sd over tokens: a row of panels per arm, first and chosen snapshot side by side.

    All panels share the y-range. Outliers are marked and named by number. Dimensions of two seeds do not correspond, so
    only the first run of each arm is drawn. Raises `ValueError` for two studies.
    """
    table = ends(prepared(dimensions, "dimension", "mean", "sd", "outlier", "n"))
    table = table[table["seed"] == table.groupby("arm")["seed"].transform("first")]
    arms, names = arms_of(table), moments_of(table) if "checkpoint" in table else MOMENTS
    reach = float(max(abs(table["mean"] - table["sd"]).max(), abs(table["mean"] + table["sd"]).max()))
    with style():
        figure = Figure(figsize=(WIDTH, 1.5 * len(arms) + 0.5), dpi=200, layout="constrained")
        panels = figure.subplots(len(arms), 2, squeeze=False, sharex=True, sharey=True)
        for index, (row, arm) in enumerate(zip(panels, arms, strict=True)):
            for axes, (moment, name) in zip(row, names.items(), strict=True):
                one = table[(table["arm"] == arm) & (table["moment"] == moment)].sort_values("dimension")
                _panel(axes, one, look(index)[0])
                title = named(*_called(arm, name, one.iloc[0]), 3.1, size=8)
                axes.set_title(title, fontsize=8)
                axes.tick_params(labelsize=7)
            row[0].set_ylabel("Mean ± sd", fontsize=8)
        panels[0, 0].set(ylim=(-1.12 * reach, 1.4 * reach), xlim=(-1, table["dimension"].max() + 1))
        for axes in panels[-1]:
            axes.set_xlabel("Hidden dimension", fontsize=8)
    return figure


def _called(arm: str, moment: str, facts: pd.Series) -> tuple[str, str]:
    if "checkpoint" in facts:
        return arm, moment
    return f"{arm}, seed {facts['seed']}", f"{moment} (update {facts['column']})"


def _panel(axes: Axes, rows: pd.DataFrame, colour: str) -> None:
    at, mean, sd = (rows[name].to_numpy(dtype=float) for name in ("dimension", "mean", "sd"))
    picture = len(at) > SHAPES
    edges = np.append(at, at[-1:] + 1) - 0.5  # the first and last dimension get full width
    low, high = (np.append(edge, edge[-1:]) for edge in (mean - sd, mean + sd))
    axes.fill_between(edges, low, high, step="post", color=colour, alpha=0.3, linewidth=0, rasterized=picture)
    axes.plot(at, mean, color=colour, marker="o", markersize=1.8, linestyle="", gid="mean", rasterized=picture)
    axes.axhline(0, color=colour, linewidth=0.5)
    far = rows[rows["outlier"].astype(bool)]
    axes.plot(
        far["dimension"],
        far["mean"],
        color="#d00000",
        marker="o",
        markersize=4,
        markerfacecolor="none",
        linestyle="",
        gid="outliers",
    )
    middle = np.median(mean) if len(mean) else 0.0
    farthest = far.assign(far=(far["mean"] - middle).abs()).nlargest(NAMED, "far")
    for _, one in farthest.iterrows():
        up = one["mean"] >= middle
        axes.annotate(
            str(int(one["dimension"])),
            (one["dimension"], one["mean"]),
            xytext=(0, 4 if up else -4),
            textcoords="offset points",
            ha="center",
            va="bottom" if up else "top",
            fontsize=6.5,
        )
    count = f"n = {rows['n'].iloc[0]} tokens, " + (f"outliers: {len(far)}" if len(far) else "no outlier")
    axes.text(0.99, 0.97, count, transform=axes.transAxes, ha="right", va="top", fontsize=6.5)


DIMENSIONS = View(
    name="dimensions",
    needs=("dimensions",),
    draw=hidden_dimensions,
    caption="Which hidden dimensions are outliers? Mean ± sd of each dimension over tokens after the embedding block; "
    "red circles: outliers, with their number.",
    remakes="Li 2025 (fusion), Figure 8",
)
