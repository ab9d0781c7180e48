"""View: how similar a model is to other models' chosen checkpoints, and to its own, over its training."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isoscope.platform.figures.snapshots import step_axis
from isoscope.platform.figures.style import WIDTH, layer_tick, legend_below, look, multiples, style
from isoscope.studies.spaces.contexts_by_layer import over_seeds
from isoscope.studies.spaces.similarity_maps import CALLED
from isoscope.studies.view import Table, View

LINE = ["model", "with", "of", "measure", "layer"]
"""Columns that name a line."""


@style()
def lines_over_training(table: pd.DataFrame) -> Figure:
    """Draw a row per measure and a column per layer: similarity by update, a line per reference, with its interval."""
    measures = {name: CALLED[name] for name in dict.fromkeys(table["measure"])}
    layers = {layer: f"Layer {layer_tick(layer)}" for layer in sorted(set(table["layer"]))}
    named = list(dict.fromkeys(table["with"]))
    height = 1.5 * len(measures) + 0.6
    figure, panels = multiples(measures, layers, (WIDTH, height), across="Update", sharex=True, sharey="row")
    for (measure, layer), axes in panels.items():
        shown = table[(table["measure"] == measure) & (table["layer"] == layer)].sort_values("column")
        for place, name in enumerate(named):
            own = shown[shown["with"] == name]
            line = axes.plot(own["column"], own["value"], **look(place) | {"markersize": 3})[0]
            axes.fill_between(own["column"], own["low"], own["high"], color=line.get_color(), alpha=0.16, linewidth=0)
        step_axis(axes, table)
    handles = [Line2D([], [], label=name, **look(place)) for place, name in enumerate(named)]
    legend_below(figure, handles, columns=4)
    return figure


def _rows(table: pd.DataFrame) -> Table:
    """Return mean and interval over seeds by line and update; without updates that some seeds did not keep."""
    one_seed = table.groupby("model")["seed"].nunique().max() == 1
    itself = (table["model"] == table["other_model"]) & (table["seed"] == table["other_seed"])
    name = table["other_model"] + ("" if one_seed else ", next seed")
    own, null = (table[column] for column in ("adjusted", "null"))
    shown = table.assign(**{"with": name.mask(itself, "its own chosen checkpoint")}, value=own)
    shown = shown.assign(**{bound: (table[bound] - null) / (1 - null) for bound in ("low", "high")})
    # The chosen checkpoints of seeds may be of different updates, but they are one point of a line.
    end = table[table["chosen"]].groupby("model")["update"].mean()
    shown["column"] = shown["update"].where(~shown["chosen"], shown["model"].map(end))
    keys = [*LINE, "column", "chosen"]
    shown["seeds"] = shown.groupby(LINE)["seed"].transform("nunique")
    kept = shown[shown.groupby(keys)["seed"].transform("nunique") == shown["seeds"]]
    return (over_seeds(kept, [*keys, "seeds"]),)


def _caption(table: pd.DataFrame) -> str:
    n, items, model = int(table["seeds"].max()), int(table["n"].max()), table["model"].iloc[0]
    bands = "jackknife over sentences" if n == 1 else "intervals over seeds, by jackknife (none for two)"
    return (
        f"{model} at each kept update, compared with chosen checkpoints, its own too: similarity of layers of equal "
        f"number, as (value − null)/(1 − null). The last point is its chosen checkpoint. Bands: {bands}. "
        f"n = {n} seed{'s' * (n > 1)}, {items:,} {table['of'].iloc[0]}. w: the word table alone."
    )


VIEWS = (
    View(
        name="over_training",
        needs=("over_training",),
        rows=_rows,
        by="model",
        draw=lines_over_training,
        caption=_caption,
    ),
)
