"""Views: how much alike the vectors of one form are, by layer, and by frequency or part of speech of the form."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.figures.line_form import Profile
from isoscope.studies.spaces.contexts_by_layer import AT_TABLE

CLASSES = 4
"""Classes of frequency, of about as many forms each."""
FEWEST, OTHER = 10, "other tags"
"""Forms that a tag has at least; tags with fewer are one class."""


def by_class(table: pd.DataFrame) -> pd.DataFrame:
    """Return SelfSim − AvgSim by layer and class, with two standard errors."""
    low, high = (table["mean"] + sign * 2 * table["error"] for sign in (-1, 1))
    return table.assign(low=low, high=high)


def _rows(
    words: pd.DataFrame, measures: pd.DataFrame, *, items: list[str], classes: Callable[[pd.DataFrame], pd.Series]
) -> Table:
    """Return mean and standard error over items by model, layer and class.

    `items`: columns that tell items apart. `classes`: a row per item → their classes, a categorical in order.
    """
    average = measures[measures["measure"] == "avg_sim"].set_index(["space", "layer"])["value"]
    shown = words[~words["twin"]].join(average.rename("average"), on=["space", "layer"])
    if shown.empty:
        return (shown.assign(**{"class": None, "mean": None, "error": None, "n": None}),)
    every = shown.drop_duplicates(items)
    of_item = classes(every)
    named = {one: f"{one} (n = {count})" for one, count in of_item.value_counts().items()}
    shown = shown.merge(every[items].assign(**{"class": of_item.cat.rename_categories(named)}), on=items)
    shown["corrected"] = shown["self_sim"] - shown["average"]
    of_items = shown.groupby(["model", "layer", "class", *items], observed=True)["corrected"].mean()  # over seeds
    grouped = of_items.groupby(["model", "layer", "class"], observed=True)
    return (grouped.agg(mean="mean", error="sem", n="size").reset_index().astype({"class": str}),)


def _frequencies(forms: pd.DataFrame) -> pd.Series:
    """Return the class of each form's frequency; without training data, of its occurrences."""
    counted = "frequency" if (forms["frequency"] >= 0).all() else "occurrences"
    ranks = forms[counted].rank(method="average", pct=True)  # equal counts are one class
    cut = np.ceil(ranks * CLASSES).astype(int)
    kind = "in the training split" if counted == "frequency" else "in this text"
    names = {one: f"{int(own.min())} to {int(own.max())} times {kind}" for one, own in forms[counted].groupby(cut)}
    return cut.map(names).astype(pd.CategoricalDtype([*names.values()]))


def _parts_of_speech(items: pd.DataFrame) -> pd.Series:
    """Return the tag of each item, the most frequent first; rare tags are one class, the last."""
    counts = items["tag"].value_counts().sort_index().sort_values(ascending=False, kind="stable")
    own = [*counts.index[counts >= FEWEST]]
    return items["tag"].where(items["tag"].isin(own), OTHER).astype(pd.CategoricalDtype([*own, OTHER]))


BY_CLASS = Profile(points=by_class, y="mean", series="class", columns="model", labels=("Layer", "SelfSim − AvgSim"))
VIEWS = (
    View(
        name="self_sim_by_frequency",
        needs=("words", "contextuality"),
        rows=partial(_rows, items=["form"], classes=_frequencies),
        form=BY_CLASS,
        caption="SelfSim − AvgSim by layer and by how often a form occurs; bands: two standard errors over forms. "
        f"{AT_TABLE}",
    ),
    View(
        name="self_sim_by_part_of_speech",
        needs=("tagged_words", "contextuality"),
        rows=partial(_rows, items=["form", "tag"], classes=_parts_of_speech),
        form=BY_CLASS,
        caption="SelfSim − AvgSim by layer and by part of speech. n: forms with a tag, each over its occurrences with "
        f"that tag; tags with fewer than {FEWEST} forms are “{OTHER}”. AvgSim: of all words. Bands: two standard "
        f"errors over forms. {AT_TABLE}",
    ),
)
