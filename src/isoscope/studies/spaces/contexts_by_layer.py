"""View: how similar words are by layer, at random, by form and by sentence, a line per space."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.figures.text_form import Texts
from isoscope.platform.statistics.delete_a_group import over_pairs
from isoscope.platform.statistics.paired import paired_t
from isoscope.studies.fusion.by_layer import profile

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


def _rows(table: pd.DataFrame, titles: Mapping[str, str]) -> Table:
    """Return these measures in the form of the geometry table: a twin is its model without a step."""
    keys = ["model", "twin", "layer", "measure"]
    means = over_seeds(table, keys)
    values = means.set_index(keys)["value"]
    shown = means[means["measure"].isin(titles)].rename(columns={"measure": "figure"})
    baseline = [
        values.get((*key, BASELINES.get(measure)), np.nan)
        for *key, measure in zip(*(shown[name] for name in (*keys[:-1], "figure")), strict=True)
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
    n = table.groupby("figure", sort=False)["n"].max()
    counts = ", ".join(f"{titles[str(name)]} {count:,}" for name, count in n.items())
    bands = "intervals over seeds, or of one seed over sentences, by bootstrap"
    return f"{lead} {AT_TABLE} Bands: {bands}. n (words, forms or sentences): {counts}."


def _view(name: str, titles: Mapping[str, str], lead: str, remakes: str) -> View:
    return View(
        name=name,
        needs=("contextuality",),
        rows=partial(_rows, titles=titles),
        form=profile([*titles], dict(titles), "its baseline"),
        caption=partial(_caption, lead, titles),
        remakes=remakes,
    )


VIEWS = (
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
COUNTS = View(
    name="counts",
    needs=("counts",),
    form=Texts(
        points=lambda table: (
            table.astype({"occurrences": "Int64"}).astype({"occurrences": object}).replace({pd.NA: None})
        ),
        heads={"words": "Words", "occurrences": "Occurrences", "sentences": "Sentences"},
    ),
    caption="Which words are compared?",
)
