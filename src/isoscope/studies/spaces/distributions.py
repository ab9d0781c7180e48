"""View: the distributions of cosines and distances of two words of different sentences, by layer."""

import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.figures.form import averaged, where
from isoscope.platform.figures.matrix_form import Matrix

NONE = "no pair has a value"
KINDS = {"cosine": "Cosine", "distance": "Euclidean distance / mean"}


def shares(table: pd.DataFrame) -> pd.DataFrame:
    """Return the share of pairs by value and layer over the layer's largest, means over seeds."""
    keys = ["model", "measure", "layer", "value"]
    known = table[["low", "high", "share"]].notna().all(axis=1)
    some = known.groupby([table["model"], table["measure"]]).transform("any")
    value = ((table["low"] + table["high"]) / 2).fillna(0.0)
    shown = table[["model", "measure", "layer", "share"]].assign(value=value, gap=where(~some, NONE))
    means = averaged(shown[known | ~some], keys, "share").drop(columns=["low", "high"])
    largest = means.groupby(keys[:3])["share"].transform("max")
    return means.assign(share=means["share"] / largest, panel=means["model"] + "\n" + means["measure"].map(KINDS))


def _rows(table: pd.DataFrame) -> Table:
    """Return the trained models; in units, so that layers share an axis."""
    shown = table[~table["twin"]]
    unit = shown["unit"].where(shown["unit"] > 0)  # 0: all points are one
    return (shown.assign(**{name: (shown[name] / unit).round(6) for name in ("low", "high")}),)


VIEWS = (
    View(
        name="distributions",
        needs=("pairs",),
        rows=_rows,
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
    ),
)
