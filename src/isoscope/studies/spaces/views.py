"""Views of compared spaces, in the report's order; how similar models are over training."""

import pandas as pd

from isoscope.base.view import Table, View, under
from isoscope.platform.figures.form import where
from isoscope.platform.figures.line_form import Curves
from isoscope.platform.figures.numbers import count
from isoscope.studies.spaces.contextuality_views import CLASSES_OF_FORMS, CONTEXTS, COUNTS, DISTRIBUTIONS, over_seeds
from isoscope.studies.spaces.similarity_views import (
    CALLED,
    MAPS_BETWEEN,
    MODELS_AGAINST_SEEDS,
    SIMILAR_ROWS,
    SIMILARITY,
)

CHOSEN = "chosen checkpoint"
LINE = ["model", "with", "of", "measure", "layer"]
"""Columns that name a line."""


def _lines(table: pd.DataFrame) -> Table:
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
    found = over_seeds(kept, [*keys, "seeds"]).sort_values("chosen", ascending=False, kind="stable")
    found = found.drop_duplicates([*LINE, "column"]).sort_index()  # at one place, the chosen checkpoint
    return (found.assign(mark=where(found["chosen"], CHOSEN)),)


def _caption(table: pd.DataFrame) -> str:
    n, items, model = int(table["seeds"].max()), int(table["n"].max()), table["model"].iloc[0]
    bands = "jackknife over sentences" if n == 1 else "intervals over seeds, by jackknife (none for two)"
    return (
        f"{model} at each kept update, compared with chosen checkpoints, its own too: similarity of layers of equal "
        "number, as (value − null)/(1 − null). Ring: its chosen checkpoint, of several seeds at their mean update. "
        f"Bands: {bands}. n = {count(n, 'seed')}, {items:,} {table['of'].iloc[0]}. w: the word table alone."
    )


OVER_TRAINING = View(
    name="over_training",
    needs=("over_training",),
    rows=_lines,
    by="model",
    form=Curves(
        points=lambda table: table.drop(columns="seeds"),
        x="column",
        y="value",
        series="with",
        rows="measure",
        columns="layer",
        labels=("Update", ""),
        names=CALLED | {-1: "layer w"},
    ),
    caption=_caption,
)


VIEWS: tuple[View, ...] = (
    *under("How contextual is each space?", *CONTEXTS, *CLASSES_OF_FORMS, DISTRIBUTIONS, COUNTS),
    *under("How alike are two spaces?", SIMILARITY, SIMILAR_ROWS, MAPS_BETWEEN, MODELS_AGAINST_SEEDS),
    *under("How alike are they over training?", OVER_TRAINING),
)
