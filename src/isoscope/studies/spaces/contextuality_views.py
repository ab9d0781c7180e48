"""Views of how similar words are by layer: at random, by form, by sentence, by class of form."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.figures.form import averaged, where
from isoscope.platform.figures.line_form import Profile
from isoscope.platform.figures.matrix_form import Matrix
from isoscope.platform.figures.text_form import Texts
from isoscope.platform.statistics.delete_a_group import over_pairs
from isoscope.platform.statistics.paired import paired_t
from isoscope.studies.fusion.layers import profile

AVERAGE = {
    "avg_sim": "AvgSim",
    "avg_sim_other_words": "AvgSim, other forms",
    "avg_sim_centred": "AvgSim, centred",
}
CONTEXT = {
    "self_sim": "SelfSim",
    "self_sim_corrected": "SelfSim − AvgSim",
    "self_sim_by_occurrence_corrected": "SelfSim by occurrence − AvgSim",
    "mev": "MEV",
    "intra_sim": "IntraSim, as published",
    "intra_sim_corrected": "IntraSim − AvgSim, as published",
    "intra_sim_left_out": "IntraSim, word left out",
}
"""Measure → title of its panel."""
BASELINES = {"mev": "mev_random", "intra_sim": "intra_sim_pseudo", "intra_sim_left_out": "intra_sim_left_out_pseudo"}
"""Measure → the measure that is its baseline."""


AT_TABLE = "Layer w: the word table alone."


def _contexts(table: pd.DataFrame, titles: Mapping[str, str]) -> Table:
    """Return these measures in the form of the geometry table: a twin is its model without a step."""
    keys = ["model", "twin", "layer", "measure"]
    means = over_seeds(table, keys)
    values = means.set_index(keys)["value"]
    shown = means[means["measure"].isin(titles)].rename(columns={"measure": "metric"})
    baseline = [
        values.get((*key, BASELINES.get(measure)), np.nan)
        for *key, measure in zip(*(shown[name] for name in (*keys[:-1], "metric")), strict=True)
    ]
    step = np.where(shown["twin"], np.nan, 0.0)
    own = {"checkpoint": shown["model"], "vectors": "words", "baseline": baseline, "degenerate": False, "step": step}
    return (shown.assign(**own),)


def over_seeds(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return mean and interval of the value over a model's seeds; of one seed, its own interval. n: the largest.

    Values of two runs (with a column other_seed) share seeds: their interval is a jackknife over seeds.
    """
    confidence = float(table["confidence"].iloc[0])
    shown = ["value", "low", "high", "n", *(["seed", "other_seed"] if "other_seed" in table else [])]

    def mean(rows: pd.DataFrame) -> pd.Series:
        low, high = rows["low"].iloc[0], rows["high"].iloc[0]
        if len(rows) > 1 and "other_seed" in rows:
            pairs = [*zip(rows["seed"], rows["other_seed"], strict=True)]
            low, high = over_pairs([*rows["value"]], pairs, confidence=confidence) or (None, None)
        elif len(rows) > 1:
            low, high = paired_t([*rows["value"]], confidence=confidence).interval or (None, None)
        return pd.Series({"value": rows["value"].mean(), "low": low, "high": high, "n": rows["n"].max()})

    found: pd.DataFrame = table.groupby(keys, sort=False)[shown].apply(mean).reset_index()
    return found.astype({"value": float, "low": float, "high": float, "n": int})


def _caption(lead: str, titles: Mapping[str, str], table: pd.DataFrame) -> str:
    n = table.groupby("metric", sort=False)["n"].max()
    counts = ", ".join(f"{titles[str(name)]} {count:,}" for name, count in n.items())
    bands = "intervals over seeds, or of one seed over sentences, by bootstrap"
    return f"{lead} {AT_TABLE} Bands: {bands}. n (words, forms or sentences): {counts}."


def _view(name: str, titles: Mapping[str, str], lead: str, remakes: str) -> View:
    return View(
        name=name,
        needs=("contextuality",),
        rows=partial(_contexts, titles=titles),
        form=profile([*titles], dict(titles), "its baseline"),
        caption=partial(_caption, lead, titles),
        remakes=remakes,
    )


CONTEXTS = (
    _view(
        "average_similarity",
        AVERAGE,
        "Mean cosine of two items of different sentences, by layer. Other forms: without pairs of the same form. "
        "Centred: after subtraction of the mean; what is left is not due to a common direction.",
        "Vázquez et al. 2021, AvgSim by layer",
    ),
    _view(
        "contextuality",
        CONTEXT,
        "SelfSim: mean cosine of a form with itself in other sentences. MEV: share of variance along a form's first "
        "component; its baseline is as many random words. IntraSim: mean cosine of a word with its sentence; as "
        "published, the word is a part of the mean that it is compared with. Its baseline: sentences of the same "
        "lengths with words of different sentences.",
        "Vázquez et al. 2021, SelfSim and IntraSim by layer",
    ),
)
WHOLE_NUMBERS = ("occurrences", "sentences")
COUNTS = View(
    name="counts",
    needs=("counts",),
    form=Texts(
        points=lambda table: (
            table.astype(dict.fromkeys(WHOLE_NUMBERS, "Int64"))
            .astype(dict.fromkeys(WHOLE_NUMBERS, object))
            .replace({pd.NA: None})
        ),
        heads={"words": "Words", "occurrences": "Occurrences", "sentences": "Sentences"},
    ),
    caption="Which words are compared?",
)


CLASSES = 4
"""Classes of frequency, of about as many forms each."""
FEWEST, OTHER = 10, "other tags"
"""Forms that a tag has at least; tags with fewer are one class."""


def by_class(table: pd.DataFrame) -> pd.DataFrame:
    """Return SelfSim − AvgSim by layer and class, with two standard errors."""
    low, high = (table["mean"] + sign * 2 * table["error"] for sign in (-1, 1))
    return table.assign(low=low, high=high)


def _by_class(
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
CLASSES_OF_FORMS = (
    View(
        name="self_sim_by_frequency",
        needs=("words", "contextuality"),
        rows=partial(_by_class, items=["form"], classes=_frequencies),
        form=BY_CLASS,
        caption="SelfSim − AvgSim by layer and by how often a form occurs; bands: two standard errors over forms. "
        f"{AT_TABLE}",
    ),
    View(
        name="self_sim_by_part_of_speech",
        needs=("tagged_words", "contextuality"),
        rows=partial(_by_class, items=["form", "tag"], classes=_parts_of_speech),
        form=BY_CLASS,
        caption="SelfSim − AvgSim by layer and by part of speech. n: forms with a tag, each over its occurrences with "
        f"that tag; tags with fewer than {FEWEST} forms are “{OTHER}”. AvgSim: of all words. Bands: two standard "
        f"errors over forms. {AT_TABLE}",
    ),
)


NO_PAIR = "no pair has a value"
KINDS = {"cosine": "Cosine", "distance": "Euclidean distance / mean"}


def shares(table: pd.DataFrame) -> pd.DataFrame:
    """Return the share of pairs by value and layer over the layer's largest, means over seeds."""
    keys = ["model", "measure", "layer", "value"]
    known = table[["low", "high", "share"]].notna().all(axis=1)
    some = known.groupby([table["model"], table["measure"]]).transform("any")
    value = ((table["low"] + table["high"]) / 2).fillna(0.0)
    shown = table[["model", "measure", "layer", "share"]].assign(value=value, gap=where(~some, NO_PAIR))
    means = averaged(shown[known | ~some], keys, "share").drop(columns=["low", "high"])
    largest = means.groupby(keys[:3])["share"].transform("max")
    return means.assign(share=means["share"] / largest, panel=means["model"] + "\n" + means["measure"].map(KINDS))


def _in_units(table: pd.DataFrame) -> Table:
    """Return the trained models; in units, so that layers share an axis."""
    shown = table[~table["twin"]]
    unit = shown["unit"].where(shown["unit"] > 0)  # 0: all points are one
    return (shown.assign(**{name: (shown[name] / unit).round(6) for name in ("low", "high")}),)


DISTRIBUTIONS = View(
    name="distributions",
    needs=("pairs",),
    rows=_in_units,
    form=Matrix(
        points=shares,
        x="value",
        y="layer",
        columns="panel",
        value="share",
        labels=("Value", "Layer"),
        bar="Share of pairs, over the layer's largest",
        names={-1: "w"},
    ),
    caption="Distributions over random pairs of items of different sentences, by layer, each over its largest "
    "share. Two peaks: items fall into groups that have a direction of their own. A narrow peak off 0: all items "
    "share a direction.",
    remakes="Vázquez et al. 2021, distributions of cosines and distances",
)
