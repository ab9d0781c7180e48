"""View: how near linear maps bring one space to another."""

import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.figures.border import MARKED
from isoscope.platform.figures.interval_form import Intervals

SHOWN = {"r2": "R²", "retrieval_forward": "CSLS retrieval", "cosine_forward": "Cosine retrieval"}
MAPS = {"none": "no map", "procrustes": "rotation, scaling, shift", "ridge": "linear map"}
LOWEST = -0.6
"""Left end of the axes."""


def maps(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row per measure, direction, map and pair of spaces; R² alone has an interval and a null."""
    table = table.drop(columns=["seed", "other_seed"], errors="ignore")
    parts = [table.assign(value=table[name], shown=label) for name, label in SHOWN.items()]
    for other in parts[1:]:
        other[["low", "high", "null"]] = float("nan")
    return pd.concat(parts, ignore_index=True)


def _rows(table: pd.DataFrame) -> Table:
    """Return the rows with their direction, such as `A → B`; twins of random weights last."""
    ends = table[["model", "other_model"]].where(~table["back"], table[["other_model", "model"]].to_numpy())
    named = ends["model"] + " → " + ends["other_model"] + table["twin"].map({True: ", random weights", False: ""})
    table = table.assign(direction=named, number=pd.factorize(table["of"])[0])
    return (table.sort_values(["number", "twin", "direction"], kind="stable", ignore_index=True),)


def _caption(table: pd.DataFrame) -> str:
    of, cut = table["of"].iloc[0], f" {MARKED}" * bool((table["r2"] < LOWEST).any())
    n = int(table["n"].min())
    return (
        f"How near a map brings the last layer of a model to that of another: {of}, of sentences that neither fitted "
        f"it (n = {int(table['n_fitted'].min()):,}) nor chose its penalty. n = {n:,}, of as many sentences. Lines: "
        "intervals over sentences; |: a map that was fitted with sentences exchanged. Retrieval: the own vector is the "
        f"nearest of all; chance is {1 / n:.4f}.{cut}"
    )


VIEWS = (
    View(
        name="maps_between_spaces",
        needs=("maps",),
        rows=_rows,
        by="number",
        form=Intervals(
            points=maps,
            x="value",
            y="direction",
            series="map",
            columns="shown",
            labels=("Measure", ""),
            names=MAPS,
            beside={"null": "a map fitted with sentences exchanged"},
            limits=(LOWEST, 1.02),
        ),
        caption=_caption,
        remakes="Vázquez et al. 2021, alignment of the spaces",
    ),
)
