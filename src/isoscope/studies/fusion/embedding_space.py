"""Draw tokens after the embedding block: their map, the evidence behind it, and outlying hidden dimensions."""

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from isoscope.platform.figures.snapshots import (
    MOMENTS,
    SHARE,
    arms_of,
    at_chosen,
    banded,
    ends,
    keys,
    moments_of,
    over_seeds,
    prepared,
    seeds_of,
)
from isoscope.platform.figures.style import INK, SEQUENTIAL, SHAPES, WIDTH, legend_below, look, multiples, named, style
from isoscope.studies.view import Table, View

TURNS = 8
READ = {"t-SNE": "t-SNE is an illustration: distances between groups mean nothing", "PCA": ""}
PANELS = {
    "same word": "Neighbours:\nthe same word",
    "same position": "Neighbours:\nthe same position",
    "word": "Decoded linearly:\nthe word",
    "position": "Decoded linearly:\nthe position",
}
NAMED = 6
"""How many outlying dimensions of a panel are named, farthest first; the rest are counted."""
RING: dict[str, Any] = {"color": "#d00000", "marker": "o", "markersize": 4, "markerfacecolor": "none", "linestyle": ""}
FEW = 256
"""Up to this number of dimensions, each is a shape of the SVG; above it, they are rasterised."""


@style()
def scatter(points: pd.DataFrame, *, method: Literal["t-SNE", "PCA"]) -> Figure:
    """Draw the tokens of all arms in a plane: left by arm (colour and marker), right the same points by position.

    `points`: columns arm, x, y (for PCA pc1 and pc2, if present) and, for the right panel, position. Arms are drawn in
    turns (`TURNS`), so that no arm covers another. Both axes have the same scale.
    """
    if method == "PCA" and "pc1" in points:
        points = points.assign(x=points["pc1"], y=points["pc2"])
    points = points.reset_index(drop=True)
    arms = arms_of(points)
    known = "position" in points and bool(points["position"].notna().any())
    figure = Figure(figsize=(WIDTH, 4.0) if known else (4.4, 4.6), dpi=200, layout="constrained")
    panels = figure.subplots(1, 1 + known, squeeze=False)[0]
    colours = points["arm"].map({arm: look(index)["color"] for index, arm in enumerate(arms)})
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
        axes.set_aspect("equal")
        axes.spines[:].set(visible=True, linewidth=0.5)
        if method == "t-SNE":
            axes.set(xticks=[], yticks=[])
        else:
            axes.set_xlabel("First component", fontsize=8)
            axes.set_ylabel("Second component", fontsize=8)
            axes.tick_params(labelsize=7)
        axes.set(xlim=_limits(points["x"], points), ylim=_limits(points["y"], points))
    handles = keys(points, 1.7, lambda own: f"n = {len(own)} tokens", linestyle="")
    legend_below(figure, handles, columns=2 + known).set_title(READ[method], FontProperties(size=7))
    return figure


def _points(axes: Axes, points: pd.DataFrame, arms: Sequence[str], colours: pd.Series) -> None:
    for turn, (index, arm) in product(range(TURNS), enumerate(arms)):
        own = points[points["arm"] == arm].iloc[turn::TURNS]
        axes.scatter(
            *(own["x"], own["y"]),
            c=list(colours[own.index]),
            marker=look(index)["marker"],
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


@style()
def embedding_evidence(neighbours: pd.DataFrame, decoding: pd.DataFrame) -> Figure:
    """Draw, for tokens after the block's LayerNorm, the share of alike nearest neighbours and the share decoded.

    A panel per quantity from 0 to 1, a row per arm: hollow at the first snapshot, filled at the chosen epoch; mean over
    seeds ± 1 sd. A stroke marks chance (for decoding: a map learned from shuffled pairs).
    """
    both = [
        prepared(neighbours).assign(kind=neighbours["neighbours"]),
        prepared(decoding).assign(kind=decoding["read"], chance=decoding["control"]),
    ]
    table = ends(pd.concat([part[part["part"] == "normed"] for part in both]))
    arms = arms_of(table)
    size = (WIDTH, 1.9 + 0.24 * len(arms))
    figure, panels = multiples({"": ""}, PANELS, size, across="Share of tokens", grid="x", sharey=True)
    for (_, kind), axes in panels.items():
        axes.set(xlim=(-0.03, 1.03), ylim=(len(arms) - 0.5, -0.5))
        axes.set_yticks(range(len(arms)), [named(arm, "", 1.4) for arm in arms])
        for at, arm in enumerate(arms):
            rows = table[(table["kind"] == kind) & (table["arm"] == arm)]
            chance = over_seeds(rows, ["moment"], "chance")["mean"]
            axes.plot(chance, [at] * len(chance), color=INK, marker="|", markersize=9, linestyle="", gid="chance")
            for moment, fill, width in (("first", "none", 6.0), ("chosen", look(at)["color"], 4.0)):
                one = over_seeds(rows[rows["moment"] == moment], ["moment"], "rate")
                mark: dict[str, Any] = {
                    "markersize": width,
                    "markerfacecolor": fill,
                    "linestyle": "",
                    "elinewidth": 0.9,
                }
                axes.errorbar(one["mean"], [at] * len(one), xerr=one["sd"].fillna(0.0), **mark | look(at))
    looks = [{"marker": "o", "markerfacecolor": fill} for fill in ("none", INK)] + [{"marker": "|", "markersize": 9}]
    names = [*moments_of(table).values(), "chance"]
    handles = [
        Line2D([], [], color=INK, linestyle="", label=name, **one) for name, one in zip(names, looks, strict=True)
    ]
    legend_below(figure, handles, columns=3, title=seeds_of(table), title_fontsize=7)
    return figure


@style()
def hidden_dimensions(dimensions: pd.DataFrame) -> Figure:
    """Draw each dimension's mean ± 1 sd over tokens: a row of panels per arm, first and chosen snapshot side by side.

    All panels share the y-range. Outliers are marked and named by number. Dimensions of two seeds do not correspond, so
    only the first run of each arm is drawn.
    """
    table = ends(prepared(dimensions))
    table = table[table["seed"] == table.groupby("arm")["seed"].transform("first")]
    arms, moments = arms_of(table), moments_of(table) if "checkpoint" in table else MOMENTS
    reach = float(max(abs(table["mean"] - table["sd"]).max(), abs(table["mean"] + table["sd"]).max()))
    rows, columns = dict.fromkeys(arms, "Mean ± sd"), dict.fromkeys(moments, "")
    size = (WIDTH, 1.5 * len(arms) + 0.5)
    figure, panels = multiples(rows, columns, size, across="Hidden dimension", grid=None, sharex=True, sharey=True)
    figure.set_dpi(200)
    for (arm, moment), axes in panels.items():
        one = table[(table["arm"] == arm) & (table["moment"] == moment)].sort_values("dimension")
        _dimensions(axes, one, look(arms.index(arm))["color"])
        who, when = (arm, moments[moment])
        if "checkpoint" not in table:
            who, when = f"{arm}, seed {one['seed'].iloc[0]}", f"{when} (update {one['column'].iloc[0]})"
        axes.set_title(named(who, when, 3.1, size=8), fontsize=8)
        axes.set(ylim=(-1.12 * reach, 1.4 * reach), xlim=(-1, table["dimension"].max() + 1))
    return figure


def _dimensions(axes: Axes, rows: pd.DataFrame, colour: str) -> None:
    at, mean, sd = (rows[name].to_numpy(dtype=float) for name in ("dimension", "mean", "sd"))
    picture = len(at) > FEW
    edges = np.append(at, at[-1:] + 1) - 0.5  # the first and last dimension get full width
    low, high = (np.append(edge, edge[-1:]) for edge in (mean - sd, mean + sd))
    axes.fill_between(edges, low, high, step="post", color=colour, alpha=0.3, linewidth=0, rasterized=picture)
    axes.plot(at, mean, color=colour, marker="o", markersize=1.8, linestyle="", gid="mean", rasterized=picture)
    axes.axhline(0, color=colour, linewidth=0.5)
    far = rows[rows["outlier"].astype(bool)]
    axes.plot(far["dimension"], far["mean"], gid="outliers", **RING)
    middle = np.median(mean) if len(mean) else 0.0
    farthest = far.assign(far=(far["mean"] - middle).abs()).nlargest(NAMED, "far")
    for dimension, value in farthest[["dimension", "mean"]].itertuples(index=False, name=None):
        offset, side = (4, "bottom") if value >= middle else (-4, "top")
        options: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": side, "fontsize": 6.5}
        axes.annotate(str(int(dimension)), (dimension, value), xytext=(0, offset), **options)
    count = f"n = {rows['n'].iloc[0]} tokens, " + (f"outliers: {len(far)}" if len(far) else "no outlier")
    axes.text(0.99, 0.97, count, transform=axes.transAxes, ha="right", va="top", fontsize=6.5)


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
EVIDENCE = View(
    name="evidence",
    needs=("neighbours", "decoding"),
    draw=embedding_evidence,
    caption="Do tokens keep their word and position after the embedding block? Share of nearest neighbours in the full "
    "space with the same word or position; share that a linear map decodes. Strokes: chance.",
)
DIMENSIONS = View(
    name="dimensions",
    needs=("dimensions",),
    draw=hidden_dimensions,
    caption="Which hidden dimensions are outliers? Mean ± sd of each dimension over tokens after the embedding block; "
    "red circles: outliers, with their number.",
    remakes="Li 2025 (fusion), Figure 8",
)


TOKEN_TABLES = {"word": "Word", "position": "Position"}


def by_layer(decoding: pd.DataFrame) -> Table:
    """Return the rows at the chosen snapshot with a column `layer`: 0 after the embedding block."""
    part = decoding["part"].astype(str)
    layer = part.str.extract(r"^layer (\d+)$")[0].where(part != "normed", "0")
    return (decoding.assign(layer=layer)[layer.notna()].astype({"layer": int}),)


@style()
def read_back(decoding: pd.DataFrame) -> Figure:
    """Draw the share of tokens whose word, and whose position, a linear map reads at each layer, from 0 to 1.

    A line per arm: mean over seeds ± 1 sd. Dotted: the same map fitted on shuffled pairs.
    """
    table = at_chosen(prepared(decoding))
    arms = arms_of(table)
    figure, panels = multiples(
        {"": "Share of tokens"}, TOKEN_TABLES, (WIDTH, 2.4 + 0.1 * len(arms)), across="Layer", sharey=True
    )
    for (_, read), axes in panels.items():
        axes.set_ylim(-0.03, 1.03)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        rows = table[table["read"] == read]
        for index, arm in enumerate(arms):
            banded(axes, rows[rows["arm"] == arm], "layer", "rate", marks=12, within=SHARE, **look(index))
        control = rows.groupby("layer")["control"].mean()
        axes.plot(control.index, control, color=INK, linestyle=(0, (1, 1.5)), linewidth=1.0, gid="control")
    legend_below(figure, keys(table, 2.0), columns=3)
    return figure


def _spoken(decoding: pd.DataFrame) -> str:
    table = at_chosen(prepared(decoding))
    means = table[table["layer"] == table["layer"].max()].groupby(["arm", "read"], sort=False)["rate"].mean()
    said = "; ".join(f"{arm}, {read} {rate:.2f}" for (arm, read), rate in means.items())
    return f"Read back at the last layer: {said}."


READ_BACK = View(
    name="read_back",
    needs=("decoding",),
    rows=by_layer,
    draw=read_back,
    caption=(
        "Share of tokens whose word and whose position a linear map reads from their vector, at the chosen epoch, by "
        "layer (0: after the embedding block). Mean over seeds ± 1 sd; sentences are held out. Dotted: a map fitted on "
        "shuffled pairs, mean over arms."
    ),
    spoken=_spoken,
)
