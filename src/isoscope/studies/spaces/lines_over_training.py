"""View: how similar a model is to other models' chosen checkpoints, and to its own, over its training."""

import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.figures.line_form import Curves
from isoscope.studies.spaces.contexts_by_layer import over_seeds
from isoscope.studies.spaces.similarity_maps import CALLED

LINE = ["model", "with", "of", "measure", "layer"]
"""Columns that name a line."""


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    return table.drop(columns="seeds")


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
        form=Curves(
            points=_in_order,
            x="column",
            y="value",
            series="with",
            rows="measure",
            columns="layer",
            labels=("Update", ""),
            names=CALLED | {-1: "layer w"},
        ),
        caption=_caption,
    ),
)
