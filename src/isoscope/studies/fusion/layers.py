"""Views of the geometry table: by layer and snapshot, over training, and by layer beside random weights."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.config.declared import title
from isoscope.platform.figures.form import in_order, where
from isoscope.platform.figures.line_form import Curves, Profile
from isoscope.platform.figures.matrix_form import Matrix
from isoscope.platform.figures.snapshots import (
    EVERY,
    TWIN,
    chosen,
    common,
    line_and_band,
    prepared,
    trained,
    trained_seeds_of,
    with_range,
)
from isoscope.states.shown_metrics import MAPS, OF_PAIRS, OVER_TRAINING, added, paired

SHARED = "vectors shared: no geometry"
"""Label of a degenerate cell: all points are equal, or its sentences have few distinct vectors."""
UNDEFINED = "not defined here"
WHY = "at layer 0, [CLS] holds its own token and position, and with conv2d those of the next tokens"
MOST = 5
"""Maximum number of layers drawn as lines."""
NOISE = "isotropic noise, same n and d"
CALLED = {"first": "[CLS]", "last": "the last token", "mean": "the mean over tokens", "words": "sampled words"}
CALLED |= OF_PAIRS


def with_gaps(geometry: pd.DataFrame) -> pd.DataFrame:
    """Mark degenerate cells as gaps, and give each metric its range and its title."""
    geometry = with_range(geometry.drop(columns=["low", "high", "note"], errors="ignore"), "metric")  # of single runs
    return geometry.assign(gap=where(geometry["degenerate"], SHARED), metric=geometry["metric"].map(title))


def cells(geometry: pd.DataFrame) -> pd.DataFrame:
    """Return the cells of maps: layer by update, `random` for the random-weights control; the chosen epoch as note."""
    table = prepared(geometry)
    steps = chosen(table).fillna(0).astype(int).groupby(table["arm"], sort=False).agg(["min", "max"])
    spans = [f"update {low}" if low == high else f"updates {low} to {high}" for low, high in steps.to_numpy()]
    seeds = [trained_seeds_of(own) for _, own in table.groupby("arm", sort=False)]
    notes = {arm: f"{n}\nchosen: {span}" for arm, n, span in zip(steps.index, seeds, spans, strict=True)}
    shared = common(with_gaps(table)).sort_values("column", kind="stable")
    empty = shared["gap"].isna() & shared["value"].isna()
    update = shared["column"].astype(str).where(shared["column"] != TWIN, "random")
    return shared.assign(gap=shared["gap"].mask(empty, UNDEFINED), update=update, note=shared["arm"].map(notes))


def _limits(table: pd.DataFrame) -> tuple[float | None, float | None]:
    least, most = (None if pd.isna(end := table[name].iloc[0]) else float(end) for name in ("least", "most"))
    return least, most


def _bar(table: pd.DataFrame) -> str:
    """Return the metric, and the value of isotropic noise: a single time if it is the same for all arms."""
    texts = {
        str(arm): f"{own['baseline'].mean():.3f} (n = {own['n'].iloc[0]:.0f}, d = {own['d'].iloc[0]:.0f})"
        for arm, own in table.dropna(subset="baseline").groupby("arm", sort=False)
    }
    alike = set(texts.values())
    noise = alike or {"not known"} if len(alike) < 2 else {"; ".join(f"{arm} {text}" for arm, text in texts.items())}
    return f"{table['metric'].iloc[0]}\nisotropic noise: {noise.pop()}".replace("-", "−")


def why_hatched(table: pd.DataFrame, mark: str = "Hatched") -> str:
    """Return why [CLS] has no geometry in some cells of layer 0, for a caption; empty if there are none."""
    cells = table[table["degenerate"].astype(bool)]
    first = bool((cells["layer"] == 0).all()) and ("vectors" not in table or bool((table["vectors"] == "first").all()))
    return f" {mark}: sentences share their vectors{f'; {WHY}' * first}." * bool(len(cells))


def _mapped(geometry: pd.DataFrame) -> Table:
    """Return the rows of each map, with the map's name: metric and kind of representation."""
    named = geometry.assign(map=geometry["metric"] + "-" + geometry["vectors"])
    asked = dict.fromkeys([*map("-".join, MAPS), *named.loc[added(named), "map"]])
    return (pd.concat([named[named["map"] == one] for one in asked]),)


def _map_caption(geometry: pd.DataFrame) -> str:
    metric, vectors = (geometry[name].iloc[0] for name in ("metric", "vectors"))
    return (
        f"{title(metric)}, of {CALLED[vectors]}, by layer and snapshot. Mean over seeds. {EVERY} All arms share a "
        f"colour scale.{why_hatched(geometry)}"
    )


def _of_cls(geometry: pd.DataFrame) -> Table:
    return (geometry[(geometry["vectors"] == "first") & geometry["metric"].isin(OVER_TRAINING)],)


def curves(geometry: pd.DataFrame) -> pd.DataFrame:
    """Return the rows over training at up to `MOST` layers, evenly spaced, including the first and last."""
    layers = np.sort(geometry["layer"].unique())
    shown = layers[np.unique(np.linspace(0, len(layers) - 1, min(MOST, len(layers))).round().astype(int))]
    return with_gaps(trained(geometry[geometry["layer"].isin(shown)]))


def _curves_caption(geometry: pd.DataFrame) -> str:
    return (
        f"Geometry of [CLS] over training. {line_and_band(geometry)}; dashed: noise at the same n and d. {EVERY}"
        + why_hatched(geometry)
    )


LAYERS = View(
    name="layers",
    needs=("geometry",),
    rows=_mapped,
    by="map",
    form=Matrix(
        points=cells, x="update", y="layer", columns="arm", labels=("Update", "Layer"), limits=_limits, bar=_bar
    ),
    caption=_map_caption,
)
CURVES = View(
    name="curves",
    needs=("geometry",),
    rows=_of_cls,
    form=Curves(
        points=curves,
        x="column",
        y="value",
        rows="metric",
        columns="layer",
        labels=("Update", ""),
        names={title(metric): title(metric) for metric in OVER_TRAINING},
        beside={"baseline": NOISE},
    ),
    caption=_curves_caption,
)


W = -0.25
"""Place of the word table alone on an axis of relative depth."""
TRAINED, RANDOM = "checkpoint", "random-weights control"


def by_depth(geometry: pd.DataFrame, *_: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Return these metrics by layer, as far as they were measured; of checkpoints of different depth, by depth.

    Without `metrics`, all metrics of the table, by their titles. Depth: layer / number of layers. Layer −1 is the word
    table alone.
    """
    table = geometry.drop(columns="note", errors="ignore")
    if metrics:
        table = in_order(table[table["metric"].isin(metrics)], "metric", metrics)
    else:
        table = table.assign(metric=table["metric"].map(title))
    depth = table.groupby("checkpoint")["layer"].transform("max")
    relative = depth.nunique() > 1
    # A single layer, as that of given vectors, is the last.
    at = (table["layer"] / depth).fillna(1.0).where(table["layer"] >= 0, W) if relative else table["layer"]
    twin = np.where(table["step"].isna(), RANDOM, TRAINED)
    bounds = {end: pd.to_numeric(table[end]).where(twin == TRAINED) for end in ("low", "high")}
    return table.assign(at=at, weights=twin, gap=where(table["degenerate"], SHARED), **bounds)


def profile(metrics: Sequence[str], titles: dict[str, str] | None = None, beside: str = NOISE) -> Profile:
    """Return the form of a panel per metric; dotted: random weights; dashed: `baseline`, named by `beside`."""
    return Profile(
        points=partial(by_depth, metrics=metrics),
        x="at",
        series="checkpoint",
        dash="weights",
        columns="metric",
        names={TRAINED: TRAINED, RANDOM: RANDOM} | (titles or {name: title(name) for name in metrics}),
        beside={"baseline": beside, "chance": "chance: the largest class"},
    )


def _of_plugins(geometry: pd.DataFrame) -> Table:
    """Return the rows of measures of plugins and of pairs, with the figure's name: measure and kind of vectors."""
    own = geometry[added(geometry) | paired(geometry)]
    return (own.assign(own=own["measure"] + "-" + own["vectors"]),)


def _own_caption(geometry: pd.DataFrame) -> str:
    measure, vectors = (geometry[name].iloc[0] for name in ("measure", "vectors"))
    return (
        f"The measure {measure} of {CALLED[vectors]} over training. {line_and_band(geometry)}; dashed: noise at the "
        f"same n and d. {EVERY}{why_hatched(geometry)}"
    )


OWN = View(
    name="own",
    needs=("geometry",),
    rows=_of_plugins,
    by="own",
    form=CURVES.form,
    caption=_own_caption,
)
