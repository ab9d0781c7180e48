"""Draw metrics of the geometry table: a map of layers by snapshots per arm, and lines over training per layer."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from isoscope.platform.figures.maps import Scale, beyond, natural, scale_of
from isoscope.platform.figures.snapshots import (
    EVERY,
    TWIN,
    arms_of,
    banded,
    chosen,
    common,
    keys,
    line_and_band,
    over_seeds,
    over_training,
    prepared,
    step_axis,
    trained_seeds_of,
)
from isoscope.platform.figures.style import (
    DIVERGING,
    HATCH,
    INK,
    SEQUENTIAL,
    WIDTH,
    hatch_key,
    hatched,
    legend_below,
    legend_inches,
    look,
    multiples,
    named,
    style,
    tiles,
    wrapped,
)
from isoscope.platform.figures.titles import title
from isoscope.states.shown_metrics import MAPS, OVER_TRAINING, added
from isoscope.studies.view import Table, View

GAP = -2
"""An empty column between the twin and training."""
SHARED = "vectors shared: no geometry"
"""Label of a degenerate cell: all points are equal, or its sentences have few distinct vectors."""
WHY = "at layer 0, [CLS] holds its own token and position, and with conv2d those of the next tokens"
HATCHES = {"degenerate": ("//////", SHARED), "undefined": ("xxxxxx", "not defined here")}

SQUARE = np.array([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)])
"""Corners around a cell's centre."""
TRIANGLE: dict[str, Any] = {"color": INK, "marker": 7, "markersize": 5, "linestyle": ""}


@style()
def layer_by_snapshot(geometry: pd.DataFrame, figure: str, *, vectors: str = "first") -> Figure:
    """Draw a map per arm, layer (0 at the bottom) by snapshot: mean over seeds of `figure`, a common colour range.

    - The colour range is the metric's natural range (`isoscope.platform.figures.maps`), or that of all panels.
    - A degenerate cell is hatched, never coloured.
    - The twin with random weights is separate on the left; a triangle, perhaps between columns, is a chosen epoch.
    - The colour bar's label gives the value of isotropic noise.

    `geometry`: the measured tables with columns arm and seed. Raises `ValueError` if `figure` was not measured on
    `vectors`.
    """
    table = of_figure(geometry, figure, vectors)
    arms, by = arms_of(table), ["arm", "layer", "column"]
    degenerate = table.groupby(by, sort=False)["degenerate"].any().reset_index()
    shared = common(table)
    cells = over_seeds(shared, by, "value").merge(degenerate, on=by)
    cells.loc[cells["degenerate"], "mean"] = np.nan
    scale = scale_of(figure, cells["mean"])
    made = _Maps(sorted(table["layer"].unique()), sorted(shared["column"].unique().tolist()), scale)
    per_row = max(1, min(len(arms), int((WIDTH - 0.6) / made.width)))
    labels: dict[str, Any] = {"across": made.label, "up": "Layer", "grid": None}
    size = (WIDTH, made.height + 0.35, 1.55)
    drawing, panels = tiles(len(arms), per_row, size, sharex=True, sharey=True, **labels)
    every = drawing.axes
    for axes, arm in zip(panels, arms, strict=True):
        own = table[table["arm"] == arm]
        made.draw(axes, cells[cells["arm"] == arm], set(chosen(own).values()))
        axes.set_title(named(arm, trained_seeds_of(own), 6.2 / per_row), fontsize=9, pad=9)
        axes.tick_params(length=0)
    drawing.legend(handles=[*made.keys.values()], loc="outside upper right", ncols=3, fontsize=7.5)
    if scale.low is not None:
        colours = ScalarMappable(Normalize(scale.low, scale.high), made.map)
        extend = beyond(cells["mean"], scale.low, scale.high)
        bar = drawing.colorbar(colours, None, every, location="bottom", shrink=0.6, aspect=40, extend=extend)
        bar.set_label(f"{scale.label}\n{wrapped(_noise(table), WIDTH - 0.4, size=8, lines=3)}", fontsize=8)
        bar.ax.tick_params(labelsize=7)
    return drawing


def of_figure(geometry: pd.DataFrame, figure: str, vectors: str) -> pd.DataFrame:
    """Return the rows of a metric for a kind of representation. Raises `ValueError` if there are none."""
    return prepared(geometry[(geometry["vectors"] == vectors) & (geometry["figure"] == figure)])


class _Maps:
    """Draws maps with the same layers, snapshots and colours."""

    def __init__(self, layers: Sequence[int], steps: Sequence[int], scale: Scale) -> None:
        self.layers, self.scale, twin = layers, scale, TWIN in steps
        self.map = DIVERGING if scale.diverging else SEQUENTIAL
        self.columns = [TWIN, GAP, *steps[1:]] if twin else [*steps]
        self.width = max(1.2, 0.26 * len(self.columns))
        self.height = max(0.6, 0.155 * len(layers))
        self.label = "Update" + ("; random: the random twin" if twin else "")
        self.keys: dict[str, Any] = {"chosen": Line2D([], [], label="chosen epoch of a seed", **TRIANGLE)}

    def draw(self, axes: Axes, cells: pd.DataFrame, best: set[int]) -> None:
        """Draw an arm's map: colours for values, hatched squares for missing values, triangles above."""
        means, degenerate, there = (self._matrix(cells, name) for name in ("mean", "degenerate", "n"))
        if self.scale.low is not None:
            colours: dict[str, Any] = {"cmap": self.map, "vmin": self.scale.low, "vmax": self.scale.high}
            axes.imshow(np.ma.masked_invalid(means), interpolation="none", origin="lower", aspect="auto", **colours)
        undefined = np.isnan(means) & (degenerate != 1) & ~np.isnan(there)
        for kind, where in (("degenerate", degenerate == 1), ("undefined", undefined)):
            if where.any():
                hatch, text = HATCHES[kind]
                self.keys[kind] = hatch_key(text, hatch)
                squares = [np.add(at, SQUARE) for at in np.argwhere(where)[:, ::-1]]
                look: dict[str, Any] = {"facecolor": "none", "edgecolor": HATCH, "linewidth": 0, "hatch": hatch}
                axes.add_collection(PolyCollection(squares, gid=kind, **look))
        steps = [step for step in self.columns if step >= 0]
        at = np.interp(sorted(best), steps, np.arange(len(steps)) + len(self.columns) - len(steps))
        above = [1 + 0.03 / self.height] * len(best)  # a fixed distance in inches, for any height of the map
        axes.plot(at, above, transform=axes.get_xaxis_transform(), clip_on=False, gid="chosen", **TRIANGLE)
        names = {at: "random" if one == TWIN else str(one) for at, one in enumerate(self.columns) if one != GAP}
        axes.set_xticks(list(names), names.values(), rotation=90 if len(self.columns) > 8 else 0)
        every = -(-len(self.layers) // 13)
        axes.set_yticks(range(0, len(self.layers), every), [str(layer) for layer in self.layers[::every]])
        axes.set(xlim=(-0.5, len(self.columns) - 0.5), ylim=(-0.5, len(self.layers) - 0.5))
        axes.spines[:].set_visible(False)

    def _matrix(self, cells: pd.DataFrame, name: str) -> npt.NDArray[np.float64]:
        found = cells.pivot(index="layer", columns="column", values=name).reindex(self.layers, columns=self.columns)
        return found.to_numpy(dtype=float, na_value=np.nan)


def _noise(table: pd.DataFrame) -> str:
    """Return the value of isotropic noise as text, a single time if it is the same for all arms."""
    known = table[table["baseline"].notna()].groupby("arm", sort=False)
    texts = {
        arm: f"{own['baseline'].mean():.3f} (n = {own['n'].iloc[0]}, d = {own['d'].iloc[0]})".replace("-", "−")
        for arm, own in known
    }
    if len(alike := {*texts.values()}) < 2:
        return f"isotropic noise: {next(iter(alike), 'not known')}"
    return "isotropic noise: " + "; ".join(f"{arm} {text}" for arm, text in texts.items())


def why_hatched(table: pd.DataFrame, mark: str = "Hatched") -> str:
    """Return why [CLS] has no geometry in some cells of layer 0, for a caption; empty if there are none."""
    cells = table[table["degenerate"].astype(bool)]
    first = bool((cells["layer"] == 0).all()) and ("vectors" not in table or bool((table["vectors"] == "first").all()))
    return f" {mark}: sentences share their vectors{f'; {WHY}' * first}." * bool(len(cells))


CALLED = {"first": "[CLS]", "last": "the last token", "mean": "the mean over tokens", "words": "sampled words"}


def _mapped(geometry: pd.DataFrame) -> Table:
    """Return the rows of each map, with the map's name: metric and kind of representation."""
    named = geometry.assign(map=geometry["figure"] + "-" + geometry["vectors"])
    asked = dict.fromkeys([*map("-".join, MAPS), *named.loc[added(named), "map"]])
    return (pd.concat([named[named["map"] == one] for one in asked]),)


def _drawn(geometry: pd.DataFrame) -> Figure:
    return layer_by_snapshot(geometry, geometry["figure"].iloc[0], vectors=geometry["vectors"].iloc[0])


def _map_caption(geometry: pd.DataFrame) -> str:
    metric, vectors = (geometry[name].iloc[0] for name in ("figure", "vectors"))
    return (
        f"{title(metric)}, of {CALLED[vectors]}, by layer and snapshot. Mean over seeds. {EVERY} All arms share a "
        f"colour scale.{why_hatched(geometry)}"
    )


LAYERS = View(
    name="layers",
    needs=("geometry",),
    rows=_mapped,
    by="map",
    draw=_drawn,
    caption=_map_caption,
)


MOST = 5
"""Maximum number of layers drawn."""
SHORT = 14
"""How many letters of an arm's name fit in a panel's title."""

DASHED: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 0.9}


@style()
def geometry_curves(geometry: pd.DataFrame, figures: Sequence[str], *, vectors: str = "first") -> Figure:
    """Draw a line per arm over snapshots: mean over seeds with a band of ± 1 sd; isotropic noise dashed.

    Rows of panels are `figures`; columns are up to `MOST` layers, evenly spaced, including the first and last. The
    panels of a row share their scale. In degenerate cells, where vectors are shared, an arm has no line, and the title
    says so. The twin with random weights is left out. Raises `ValueError` for a metric that was not measured on
    `vectors`.
    """
    tables = {figure: of_figure(geometry, figure, vectors) for figure in figures}
    everything = pd.concat(tables.values(), ignore_index=True)
    layers = np.sort(everything["layer"].unique())
    shown = layers[np.unique(np.linspace(0, len(layers) - 1, min(MOST, len(layers))).round().astype(int))]
    rows = {
        figure: wrapped(scale_of(figure, table["value"]).label, 1.35, size=7.5, lines=3)
        for figure, table in tables.items()
    }
    noise = Line2D([], [], color=INK, label="isotropic noise, same n and d", **DASHED)
    handles = [*keys(everything, 2.8, lambda own: f"{trained_seeds_of(own)}, {_ends(own['n'])} points"), noise]
    size = (WIDTH, 1.45 * len(tables) + 0.6 + legend_inches(handles, 2))
    columns = dict.fromkeys(shown, "")
    drawing, panels = multiples(rows, columns, size, across="Update", fonts=(8.5, 7.5), sharex=True, sharey="row")
    for (figure, layer), axes in panels.items():
        table = tables[figure]
        _lines(axes, over_training(table[table["layer"] == layer]), arms_of(everything))
        step_axis(axes, everything)
        axes.yaxis.set_major_locator(MaxNLocator(4))
    for axes, layer in zip(panels.values(), shown, strict=False):  # the upper row
        flat = everything[everything["layer"] == layer].groupby("arm", sort=False)["degenerate"].all()
        names = ", ".join(arm if len(arm) <= SHORT else f"{arm[: SHORT - 1]}…" for arm in flat.index[flat])
        note = wrapped(f"vectors shared: {names}", 5.6 / len(shown), size=8, lines=3) if names else ""
        axes.set_title(f"Layer {layer}\n{note}".strip(), fontsize=8 if note else 8.5)
    legend_below(drawing, handles, columns=2)
    return drawing


def _lines(axes: Axes, table: pd.DataFrame, arms: Sequence[str]) -> None:
    """Draw the lines of a metric at a layer."""
    baselines = table.groupby("arm", sort=False)["baseline"].mean()
    alike = baselines.notna().all() and np.allclose(baselines, baselines.iloc[:1].to_numpy(), rtol=0.01, atol=0.002)
    for index, arm in enumerate(arms):
        rows = table[table["arm"] == arm]
        degenerate = rows["column"].isin(rows.loc[rows["degenerate"], "column"])
        rows = rows.assign(value=rows["value"].where(~degenerate))
        ends = natural(rows["figure"].iloc[0]) if len(rows) else (None, None)
        banded(axes, rows, "column", "value", marks=8, linewidth=1.3, zorder=3, gid="mean", within=ends, **look(index))
        if not alike and np.isfinite(baselines.get(arm, np.nan)):
            axes.axhline(baselines[arm], color=look(index)["color"], gid="noise", **DASHED)
    if alike and len(baselines):
        axes.axhline(baselines.iloc[0], color=INK, gid="noise", **DASHED)
    if len(table) and table["degenerate"].all():
        hatched(axes, "vectors shared")


def _ends(n: pd.Series) -> str:
    return "–".join(map(str, sorted({n.min(), n.max()})))


def _of_cls(geometry: pd.DataFrame) -> Table:
    return (geometry[(geometry["vectors"] == "first") & geometry["figure"].isin(OVER_TRAINING)],)


def _drawn_curves(geometry: pd.DataFrame) -> Figure:
    return geometry_curves(geometry, [one for one in OVER_TRAINING if one in set(geometry["figure"])])


def _curves_caption(geometry: pd.DataFrame) -> str:
    return (
        f"Geometry of [CLS] over training. {line_and_band(geometry)}; dashed: noise at the same n and d. {EVERY}"
        + why_hatched(geometry)
    )


CURVES = View(
    name="curves",
    needs=("geometry",),
    rows=_of_cls,
    draw=_drawn_curves,
    caption=_curves_caption,
)
