"""Draw how the points of each layer move in their principal plane during training."""

from collections.abc import Mapping, Sequence
from itertools import cycle, product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isoscope.platform.figures.style import ARM_COLOURS, SHAPES, WIDTH, hatched, legend_below, named, style, wrapped
from isoscope.studies.fusion.layers import why_hatched
from isoscope.studies.view import View

CLASS_COLOURS = (ARM_COLOURS[1], ARM_COLOURS[0], *ARM_COLOURS[2:])
"""Orange and blue first, as in Li 2025 (fusion)."""
AXES = {
    "joint": "axis of the plane shared by all snapshots",
    "procrustes": "axis of each plane, turned to match the first",
    "sign": "principal component",
}
"""What the axes of aligned planes are, by alignment. Only principal components come in the order of their variance."""
CORNERS = "Corners: range of the points along x × y; share of the panel's variance along x + y (%)"
ABREAST = 2.4
"""Maximum width over height of a panel: a much wider cloud looks like a streak."""


@style()
def feature_dynamics(
    points: pd.DataFrame, frames: pd.DataFrame, class_names: Sequence[str], *, title: str | None = None
) -> Figure:
    """Draw PC1 and PC2 of a run, coloured by class: a panel per layer (rows, last layer on top) and snapshot (columns).

    - Every cloud fills its panel, because an untrained cloud is a hundred times smaller than a trained cloud. The
      corners give its range along both axes and the variance along them.
    - A degenerate frame (vectors are shared) is hatched.
    - Points are drawn in the order of the sentences, so that no class covers another.

    Every layer and snapshot of `points` is shown; their `label` is an index of `class_names`. `frames` may have
    columns epoch and alignment. `title` replaces arm and seed above the figure.
    """
    layers = sorted(points["layer"].unique(), reverse=True)
    snapshots = list(dict.fromkeys(points["snapshot"]))
    about = {(row["layer"], row["snapshot"]): row for row in frames.to_dict("records")}
    sentences = points["sentence"].nunique()
    picture = sentences * len(layers) * len(snapshots) > SHAPES
    height = float(np.clip(8.2 / len(layers), 0.62, 1.3))
    width = min(WIDTH, max(4.2, ABREAST * height * len(snapshots) + 0.6))
    figure = Figure(figsize=(width, height * len(layers) + 0.95), dpi=200, layout="constrained")
    panels = figure.subplots(len(layers), len(snapshots), squeeze=False)
    groups = points.sort_values("sentence").groupby(["layer", "snapshot"])
    for axes, place in zip(panels.flat, product(layers, snapshots), strict=True):
        _frame(axes, groups.get_group(place), about[place], picture=picture)
    for axes, layer in zip(panels[:, 0], layers, strict=True):
        axes.set_ylabel(f"Layer {layer}", fontsize=7.5, rotation=0, ha="right", va="center")
    for axes, name in zip(panels[0], snapshots, strict=True):
        steps = frames["snapshot"].nunique() > 1 and frames["step"].notna().any()  # checkpoints have none
        when = _when(about[layers[0], name]) if steps else wrapped(name, (width - 0.7) / len(snapshots), size=7.5)
        axes.set_title(when, fontsize=7.5, loc="center")
    n = f"n = {sentences} sentences"
    if title is None:
        who = named(points["arm"].iloc[0], f"seed {points['seed'].iloc[0]}, {n}", width)
    else:
        who = named(title, n, width - 0.4)
    figure.suptitle(who, fontsize=9, fontweight="bold", x=0.01, ha="left")
    called = [f"class {name}" if name.lstrip("-").isdecimal() else name for name in class_names]
    handles = [
        Line2D([], [], color=colour, marker="o", linestyle="", label=wrapped(name, 1.6))
        for name, colour in zip(called, cycle(CLASS_COLOURS), strict=False)
    ]
    read = wrapped(f"x, y: first and second {axis_of(frames)}. {CORNERS}", width - 0.3, size=7, lines=3)
    columns = 4 if width == WIDTH else 2
    legend_below(figure, handles, columns=columns, title=read, title_fontsize=7)
    return figure


def axis_of(frames: pd.DataFrame) -> str:
    """Return what the axes of these frames are; see `AXES`."""
    together = "alignment" in frames and frames["snapshot"].nunique() > 1
    return AXES[frames["alignment"].iloc[0] if together else "sign"]


def _frame(axes: Axes, points: pd.DataFrame, about: Mapping[str, Any], *, picture: bool) -> None:
    """Draw a cloud, with a margin and room for a line of text at the bottom."""
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, linewidth=0.5)
    if about["degenerate"]:
        hatched(axes, "vectors shared")
        return
    colours = [CLASS_COLOURS[one % len(CLASS_COLOURS)] for one in points["label"]]
    axes.scatter(points["pc1"], points["pc2"], s=3.5, c=colours, linewidths=0, alpha=0.75, rasterized=picture)
    low, high = (points[["pc1", "pc2"]].agg(end).astype(float) for end in ("min", "max"))
    margin = (high - low).replace(0.0, 1.0)
    below, above = low - margin * [0.06, 0.22], high + margin * 0.06
    axes.set(xlim=(below["pc1"], above["pc1"]), ylim=(below["pc2"], above["pc2"]))
    share = f"{100 * about['explained_1']:.0f} + {100 * about['explained_2']:.0f}"
    size = " × ".join(f"{span:.2g}" for span in high - low)
    for x, side, text in ((0.03, "left", size), (0.97, "right", share)):
        axes.text(x, 0.05, text, transform=axes.transAxes, ha=side, fontsize=6.0)


def _when(about: Mapping[str, Any]) -> str:
    """Return `update 158`, with the epoch below it if the snapshot ends an epoch."""
    epoch, best = about.get("epoch", np.nan), about["snapshot"] == about["reference"]
    below = "\nchosen epoch" * best if pd.isna(epoch) else f"\nepoch {int(epoch)}{', chosen' * best}"
    return f"update {about['step']}{below}"


def _drawn(planes: pd.DataFrame, frames: pd.DataFrame) -> Figure:
    classes = planes.drop_duplicates("label").set_index("label")["class"].to_dict()
    names = [classes.get(label, str(label)) for label in range(max(classes) + 1)]
    return feature_dynamics(planes, frames[frames["seed"] == planes["seed"].iloc[0]], names)


def _caption(planes: pd.DataFrame, frames: pd.DataFrame) -> str:
    order = " It is fitted to all of them, so x may have a smaller share of a snapshot's variance than y."
    return (
        f"Feature dynamics of {planes['arm'].iloc[0]}: [CLS] by layer and snapshot. Rows: layers; columns: snapshots; "
        f"a dot is a sentence, its colour the class. x, y: first and second {axis_of(frames)}."
        + order * (axis_of(frames) == AXES["joint"])
        + why_hatched(frames)
    )


DYNAMICS = View(
    name="dynamics",
    needs=("planes", "frames"),
    by="arm",
    draw=_drawn,
    caption=_caption,
    remakes="Li 2025 (fusion), Figures 2 to 4",
)
