"""Draw how the points of each layer move in their principal plane during training."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isoscope.figures.style import ARM_COLOURS, SHAPES, WIDTH, hatched, legend_below, named, style, wrapped
from isoscope.studies.view import View

CLASS_COLOURS = (ARM_COLOURS[1], ARM_COLOURS[0], *ARM_COLOURS[2:])
"""Orange and blue first, as in Li 2025 (fusion)."""

READ = "x: first component, y: second; in the corners: the span of the points, and the variance along x and y (%)"


ABREAST = 2.4
"""Maximum width over height of a panel: a much wider cloud looks like a streak."""


def feature_dynamics(
    planes: pd.DataFrame,
    frames: pd.DataFrame,
    labels: npt.ArrayLike,
    *,
    arm: str,
    seed: int,
    snapshots: Sequence[str],
    class_names: Sequence[str],
    layers: Sequence[int] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw PC1 and PC2 of a run, coloured by class: a panel per layer (rows, last layer on top) and snapshot (columns).

    - Every cloud fills its panel, because an untrained cloud is a hundred times smaller than a trained cloud. The
      corners give its span along both axes and the variance along them.
    - A degenerate frame (vectors are shared) is hatched.
    - Points are drawn in the order of the sentences, so that no class covers another.

    `labels` `[n]`: class by sentence number, an index of `class_names`. `frames` may have a column epoch. `title`
    replaces arm and seed above the figure. Raises `ValueError` for an unknown run, snapshot or layer, and for too few
    labels.
    """
    of_class = np.asarray(labels)
    points, facts = (_of_run(table, arm, seed) for table in (planes, frames))
    layers = sorted(int(layer) for layer in facts["layer"].unique()) if layers is None else sorted(layers)
    about = {(row["layer"], row["snapshot"]): row for row in facts.to_dict("records")}
    if absent := [place for layer in layers for name in snapshots if (place := (layer, name)) not in about]:
        raise ValueError(f"no frame of layer {absent[0][0]} at {absent[0][1]!r} in the table of {arm}, seed {seed}")
    if not layers or not snapshots:
        raise ValueError("layers, snapshots: at least one of each")
    if len(of_class) <= points["sentence"].max() or not 0 <= of_class.min() <= of_class.max() < len(class_names):
        raise ValueError(
            f"labels: got {len(of_class)} of classes {of_class.min()} … {of_class.max()}; expected a class per sentence"
        )
    groups = {place: rows for place, rows in points.groupby(["layer", "snapshot"], sort=False) if place in about}
    picture = len(of_class) * len(layers) * len(snapshots) > SHAPES
    with style():
        height = float(np.clip(8.2 / len(layers), 0.62, 1.3))
        width = min(WIDTH, max(4.2, ABREAST * height * len(snapshots) + 0.6))
        figure = Figure(figsize=(width, height * len(layers) + 0.95), dpi=200, layout="constrained")
        panels = figure.subplots(len(layers), len(snapshots), squeeze=False, sharex=False, sharey=False)
        for row, layer in zip(panels, reversed(layers), strict=True):
            for axes, name in zip(row, snapshots, strict=True):
                _frame(axes, groups[layer, name], about[layer, name], of_class, picture=picture)
            row[0].set_ylabel(f"Layer {layer}", fontsize=7.5, rotation=0, ha="right", va="center")
        for axes, name in zip(panels[0], snapshots, strict=True):
            steps = facts["snapshot"].nunique() > 1 and facts["step"].notna().any()  # checkpoints have none
            when = _when(about[layers[-1], name]) if steps else wrapped(name, (width - 0.7) / len(snapshots), size=7.5)
            axes.set_title(when, fontsize=7.5, loc="center")
        n = f"n = {points['sentence'].nunique()} sentences"
        who = named(arm, f"seed {seed}, {n}", width) if title is None else named(title, n, width - 0.4)
        figure.suptitle(who, fontsize=9, fontweight="bold", x=0.01, ha="left")
        read = wrapped(READ, width - 0.3, size=7)
        columns = 4 if width == WIDTH else 2
        legend_below(figure, _legend(class_names), columns=columns, title=read, title_fontsize=7)
    return figure


def _of_run(table: pd.DataFrame, arm: str, seed: int) -> pd.DataFrame:
    found = table[(table["arm"] == arm) & (table["seed"] == seed)]
    if found.empty:
        runs = ", ".join(f"{one} seed {number}" for one, number in table.groupby(["arm", "seed"], sort=False).groups)
        raise ValueError(f"no rows of {arm!r}, seed {seed}, in the table; it has {runs or 'none'}")
    return found


def _spans(points: pd.DataFrame) -> list[tuple[float, float]]:
    """Return limits along both axes, with a margin and room for a line of text at the bottom."""
    found = []
    for name, below in (("pc1", 0.06), ("pc2", 0.22)):
        low, high = float(points[name].min()), float(points[name].max())
        span = high - low or 1.0
        found.append((low - below * span, high + 0.06 * span))
    return found


def _frame(
    axes: Axes, points: pd.DataFrame, about: Mapping[str, Any], of_class: npt.NDArray[np.int64], *, picture: bool
) -> None:
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, linewidth=0.5)
    if about["degenerate"]:
        hatched(axes, "vectors shared")
        return
    points = points.sort_values("sentence")
    colours = [CLASS_COLOURS[one % len(CLASS_COLOURS)] for one in of_class[points["sentence"]]]
    axes.scatter(points["pc1"], points["pc2"], s=3.5, c=colours, linewidths=0, alpha=0.75, rasterized=picture)
    xlim, ylim = _spans(points)
    axes.set(xlim=xlim, ylim=ylim)
    shares = [100 * about[name] for name in ("explained_1", "explained_2")]
    size = " × ".join(f"{points[name].max() - points[name].min():.2g}" for name in ("pc1", "pc2"))
    for x, side, text in ((0.03, "left", size), (0.97, "right", " + ".join(f"{share:.0f}" for share in shares))):
        axes.text(x, 0.05, text, transform=axes.transAxes, ha=side, fontsize=6.0)


def _when(about: Mapping[str, Any]) -> str:
    """Return `update 158`, with the epoch below it if the snapshot ends an epoch."""
    epoch, best = about.get("epoch", np.nan), about["snapshot"] == about["reference"]
    lines = [f"update {about['step']}"]
    if not pd.isna(epoch):
        lines.append(f"epoch {int(epoch)}{', chosen' * best}")
    elif best:
        lines.append("chosen epoch")
    return "\n".join(lines)


def _legend(class_names: Sequence[str]) -> list[Line2D]:
    return [
        Line2D(
            [],
            [],
            color=CLASS_COLOURS[index % len(CLASS_COLOURS)],
            marker="o",
            linestyle="",
            label=wrapped(_class(name), 1.6),
        )
        for index, name in enumerate(class_names)
    ]


def _class(name: str) -> str:
    """Return a class's name; a number gets the prefix `class`."""
    return f"class {name}" if name.lstrip("-").isdecimal() else name


def _drawn(planes: pd.DataFrame, frames: pd.DataFrame) -> Figure:
    classes = planes.drop_duplicates("label").set_index("label")["class"].to_dict()
    return feature_dynamics(
        *(planes, frames, planes.drop_duplicates("sentence").sort_values("sentence")["label"]),
        arm=planes["arm"].iloc[0],
        seed=planes["seed"].iloc[0],
        snapshots=list(dict.fromkeys(planes["snapshot"])),
        class_names=[classes.get(label, str(label)) for label in range(max(classes) + 1)],
        layers=sorted({int(layer) for layer in planes["layer"]}),
    )


DYNAMICS = View(
    name="dynamics",
    needs=("planes", "frames"),
    by="arm",
    draw=_drawn,
    caption="Feature dynamics of {}: [CLS] in its first two principal components. Rows: layers; columns: snapshots; a "
    "dot is a sentence, its colour the class.",
    remakes="Li 2025 (fusion), Figures 2 to 4",
)
