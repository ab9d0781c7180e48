"""Views: how much alike the vectors of one form are, by layer, and by frequency or part of speech of the form."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from isoscope.platform.figures.style import WIDTH, layer_tick, legend_below, look, style, tiles
from isoscope.studies.spaces.contexts_by_layer import AT_TABLE
from isoscope.studies.view import Table, View

CLASSES = 4
"""Classes of frequency, of about as many forms each."""
FEWEST, OTHER = 10, "other tags"
"""Forms that a tag has at least; tags with fewer are one class."""


@style()
def by_class(table: pd.DataFrame) -> Figure:
    """Draw a panel per model: SelfSim − AvgSim by layer, a line per class, with two standard errors."""
    models, classes = (list(dict.fromkeys(table[name])) for name in ("model", "class"))
    figure, panels = tiles(len(models), 3, (WIDTH, 1.7, 0.5), across="Layer", sharey=True)
    for axes, model in zip(panels, models, strict=True):
        axes.set_title(model, fontsize=8.5)
        for place, name in enumerate(classes):
            own = table[(table["model"] == model) & (table["class"] == name)].sort_values("layer")
            line = axes.plot(own["layer"], own["mean"], markersize=3.5, **look(place))[0]
            low, high = (own["mean"] + sign * 2 * own["error"] for sign in (-1, 1))
            axes.fill_between(own["layer"], low, high, color=line.get_color(), alpha=0.16, linewidth=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.xaxis.set_major_formatter(layer_tick)
    lines = panels[0].get_lines()
    for line, name in zip(lines, classes, strict=True):
        line.set_label(name)
    legend_below(figure, lines, columns=max(2, -(-len(classes) // 3)))
    return figure


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


VIEWS = (
    View(
        name="self_sim_by_frequency",
        needs=("words", "contextuality"),
        rows=partial(_rows, items=["form"], classes=_frequencies),
        draw=by_class,
        caption="SelfSim − AvgSim by layer and by how often a form occurs; bands: two standard errors over forms. "
        f"{AT_TABLE}",
    ),
    View(
        name="self_sim_by_part_of_speech",
        needs=("tagged_words", "contextuality"),
        rows=partial(_rows, items=["form", "tag"], classes=_parts_of_speech),
        draw=by_class,
        caption="SelfSim − AvgSim by layer and by part of speech. n: forms with a tag, each over its occurrences with "
        f"that tag; tags with fewer than {FEWEST} forms are “{OTHER}”. AvgSim: of all words. Bands: two standard "
        f"errors over forms. {AT_TABLE}",
    ),
)
