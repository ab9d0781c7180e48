"""Draw the tokens of several arms in a single plane."""

from collections.abc import Sequence
from functools import partial
from typing import Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from isoscope.figures.snapshots import MOMENTS
from isoscope.figures.style import SEQUENTIAL, SHAPES, WIDTH, legend_below, look, named, style
from isoscope.studies.view import View

TURNS = 8
READ = {"t-SNE": "t-SNE is an illustration: distances between groups mean nothing", "PCA": ""}


def scatter(points: pd.DataFrame, *, method: Literal["t-SNE", "PCA"]) -> Figure:
    """Draw the tokens of all arms in a plane: left by arm (colour and marker), right the same points by position.

    `points`: columns arm, x, y (for PCA pc1 and pc2, if present) and, for the right panel, position. Arms are drawn in
    turns (`TURNS`), so that no arm covers another. Both axes have the same scale. Raises `ValueError` without points.
    """
    if points.empty:
        raise ValueError("nothing to draw: no point given")
    if method == "PCA" and "pc1" in points:
        points = points.assign(x=points["pc1"], y=points["pc2"])
    points = points.reset_index(drop=True)
    arms = list(dict.fromkeys(points["arm"]))
    known = "position" in points and bool(points["position"].notna().any())
    with style():
        figure = Figure(figsize=(WIDTH, 4.0) if known else (4.4, 4.6), dpi=200, layout="constrained")
        panels = figure.subplots(1, 1 + known, squeeze=False)[0]
        colours = points["arm"].map({arm: look(index)[0] for index, arm in enumerate(arms)})
        _points(panels[0], points, arms, colours)
        panels[0].set_title("By arm", fontsize=8.5)
        if known:
            scale = ScalarMappable(Normalize(0, float(points["position"].max()) or 1.0), SEQUENTIAL)
            shades = pd.Series(list(scale.to_rgba(points["position"].to_numpy(dtype=float))), index=points.index)
            _points(panels[1], points[points["position"].notna()], arms, shades)
            panels[1].set_title("By position in the sentence", fontsize=8.5)
            bar = figure.colorbar(scale, ax=panels[1], label="Position", location="right", shrink=0.7, aspect=25)
            bar.ax.tick_params(labelsize=7)
            bar.ax.yaxis.label.set_fontsize(8)
            bar.locator = MaxNLocator(6, integer=True)
            bar.update_ticks()
        for axes in panels:
            _axes(axes, method)
            axes.set(xlim=_limits(points["x"], points), ylim=_limits(points["y"], points))
        handles = [
            Line2D(
                *([], []),
                color=look(index)[0],
                marker=look(index)[1],
                linestyle="",
                label=named(arm, f"n = {int((points['arm'] == arm).sum())} tokens", 1.7, size=7.5),
            )
            for index, arm in enumerate(arms)
        ]
        key = legend_below(figure, handles, columns=2 + known)
        key.set_title(READ[method], FontProperties(size=7))
    return figure


def _points(axes: Axes, points: pd.DataFrame, arms: Sequence[str], colours: pd.Series) -> None:
    of_arm = [points[points["arm"] == arm] for arm in arms]
    for turn in range(TURNS):
        for index, rows in enumerate(of_arm):
            own = rows.iloc[turn::TURNS]
            axes.scatter(
                *(own["x"], own["y"]),
                c=list(colours[own.index]),
                marker=look(index)[1],
                s=7,
                linewidths=0,
                alpha=0.75,
                rasterized=len(points) > SHAPES,
            )


def _limits(values: pd.Series, points: pd.DataFrame) -> tuple[float, float]:
    """Return limits around the middle of `values`, equally wide along x and y."""
    half = 0.53 * max(float(points[name].max() - points[name].min()) for name in ("x", "y")) or 1.0
    middle = float(values.max() + values.min()) / 2
    return middle - half, middle + half


def _axes(axes: Axes, method: str) -> None:
    axes.set_aspect("equal")
    axes.spines[:].set(visible=True, linewidth=0.5)
    if method == "t-SNE":
        axes.set(xticks=[], yticks=[])
        return
    axes.set_xlabel("First component", fontsize=8)
    axes.set_ylabel("Second component", fontsize=8)
    axes.tick_params(labelsize=7)


MAP = View(
    name="map",
    needs=("map",),
    by="moment",
    draw=partial(scatter, method="t-SNE"),
    caption=(
        "Tokens of all arms after the embedding block, in a t-SNE map ({}). Only an illustration: distances between "
        "groups mean nothing; the next figures are evidence."
    ),
    called=MOMENTS,
    remakes="Li 2025 (fusion), Figure 5",
)
PCA = View(
    name="pca",
    needs=("map",),
    by="moment",
    draw=partial(scatter, method="PCA"),
    caption="The same tokens in their first two principal components ({}). Distances are meaningful here.",
    called=MOMENTS,
)
