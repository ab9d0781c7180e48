"""View: every layer of one model against every layer of another, by measure."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from isoscope.figures.maps import pictures
from isoscope.figures.style import SEQUENTIAL
from isoscope.inside.word_states import WORD_TABLE
from isoscope.studies.view import Table, View

CALLED = {
    "cka": "CKA",
    "procrustes": "Procrustes",
    "cca": "CCA",
    "svcca": "SVCCA",
    "pwcca_one": "PWCCA, first side",
    "pwcca_other": "PWCCA, second side",
    "cca_held_out": "CCA, held out",
    "rsa": "RSA",
    "rsa_partial": "RSA, partial",
    "neighbours": "Neighbours",
}


TABLE = "w"
"""Tick of the word table alone."""


def similarity_maps(table: pd.DataFrame) -> Figure:
    """Draw a picture per measure: layers of the second model across, of the first up."""
    panels = []
    for measure, own in table.groupby("measure", sort=False):
        shown = own.pivot(index="layer", columns="other_layer", values="adjusted").to_numpy(dtype=float)
        panels.append((CALLED[str(measure)], shown))
    first = table.iloc[0]
    label = f"{first['one']} (up) × {first['other']} (across)"
    figure, drawn = pictures(panels, label=label, low=0.0, high=1.0, colours=SEQUENTIAL, origin="lower")
    for axes in drawn:
        for axis, numbers in ((axes.xaxis, "other_layer"), (axes.yaxis, "layer")):
            layers = sorted(set(table[numbers]))
            axis.set_ticks(range(len(layers)), [TABLE if layer == WORD_TABLE else str(layer) for layer in layers])
    return figure


def _rows(table: pd.DataFrame) -> Table:
    """Number the figures: one per pair of models and kind of words."""
    named = table["one"] + " × " + table["other"] + ", " + table["of"]
    return (table.assign(number=pd.factorize(named)[0]),)


def _caption(table: pd.DataFrame) -> str:
    first, n = table.iloc[0], table["n"].max()
    lacking = table[["value", "low", "null"]].isna().any(axis=1)
    without = f" {int(lacking.sum())} of {len(table)} cells have no value, null or interval." * bool(lacking.any())
    refused = "; ".join(dict.fromkeys(table["why"].dropna()))
    null = table.groupby("measure", sort=False)["null"].mean()
    nulls = ", ".join(f"{CALLED[str(name)]} {value:.2f}" for name, value in null.items() if np.isfinite(value))
    of = "" if first["of"] == "words" else f" ({first['of']})"
    return (
        f"{first['one']} × {first['other']}{of}: similarity of each pair of layers as (value − null)/(1 − null). Null: "
        f"sentences exchanged with sentences of the same length; its mean: {nulls}. {TABLE}: the word table alone. "
        f"n = {n:,}.{without}{f' Refused: {refused}.' if refused else ''}"
    )


VIEWS = (
    View(
        name="similarity",
        needs=("similarity",),
        rows=_rows,
        by="number",
        draw=similarity_maps,
        caption=_caption,
        remakes="Vázquez 2022, RSA and PWCCA between encoders",
    ),
)
