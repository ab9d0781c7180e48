"""View: every layer of one model against every layer of another, by measure, with what it is compared to."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.figures.matrix_form import Matrix
from isoscope.platform.statistics.findings import Untested

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


CKA, WHOLE = "cka", ("words", "sentences")
"""What findings are about: a measure, and kinds of items (not words without their form's mean)."""
LAST = "CKA of the last layers as (value − null)/(1 − null)"
SHOWN = ("cka", "pwcca_one", "cca_held_out", "rsa", "rsa_partial", "neighbours")
"""Measures that are drawn; the table has all of them."""


def similarity(table: pd.DataFrame) -> pd.DataFrame:
    """Return similarities of layers over their null, by measure and panel; without panels that have no value."""
    shown = table[table["measure"].isin(SHOWN)]
    known = shown.groupby(["measure", "panel"])["adjusted"].transform("count") > 0  # else the caption says who refused
    if not known.any():
        raise ValueError("No measure has a value above its null for these layers; the text below says why")
    shown = shown[known]
    order = shown["measure"].map(SHOWN.index)
    title = shown["measure"].map(CALLED) + "\n" + shown["panel"]
    kept = ["layer", "other_layer", "adjusted"]
    return shown[kept].assign(title=title, order=order).sort_values("order", kind="stable")


def _rows(table: pd.DataFrame) -> Table:
    """Return a numbered figure per pair of models and kind of items: its panels are the pair and its references."""
    parts = [part.assign(number=number) for number, part in enumerate(_figures(table))]
    return (pd.concat(parts, ignore_index=True) if parts else table.assign(number=np.nan, panel=None),)


def _figures(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    trained = table[~table["twin"]]
    for (one, other, of), pair in trained[trained["model"] != trained["other_model"]].groupby(
        ["model", "other_model", "of"], sort=False
    ):
        twins = table[table["twin"] & (table["model"] == one) & (table["other_model"] == other)]
        seeds = {
            f"two seeds of {name}": trained[(trained["model"] == name) & (trained["other_model"] == name)]
            for name in (one, other)
        }
        panels = {f"{one} × {other}": pair, **seeds, "random weights": twins}
        kept = (rows[rows["of"] == of].assign(panel=name) for name, rows in panels.items())
        yield pd.concat([rows for rows in kept if len(rows)], ignore_index=True)


def _caption(table: pd.DataFrame) -> str:
    first, n = table.iloc[0], table["n"].max()
    lacking = table[["value", "low", "null"]].isna().any(axis=1)
    without = f" {int(lacking.sum())} of {len(table)} cells have no value, null or interval." * bool(lacking.any())
    refusals = table[table["why"].notna()].drop_duplicates("measure")
    refused = (
        f"{', '.join(CALLED[name] for name in refusals['measure'])} ({refusals['why'].iloc[0].partition(': give')[0]})"
        if len(refusals)
        else ""
    )
    null = table[table["measure"].isin(SHOWN)].groupby("measure", sort=False)["null"].mean()
    nulls = ", ".join(
        f"{CALLED[str(name)]} {value + 0.0:.2f}".replace("-0.00", "0.00").replace("-", "−")
        for name, value in null.items()
        if np.isfinite(value)
    )
    seeds = table[table["panel"] == first["panel"]][["seed", "other_seed"]].dropna().drop_duplicates()
    trained = table[~table["twin"]]
    ceiling = "two seeds of one model and to " * bool((trained["model"] == trained["other_model"]).any())
    mean = f" Mean over {len(seeds)} pairs of seeds." * (len(seeds) > 1)
    return (
        f"{first['model']} × {first['other_model']}, {first['of']}: similarity of each pair of layers as (value − "
        f"null)/(1 − null), next to {ceiling}random weights. Null: sentences exchanged "
        f"with sentences of the same length; its mean: {nulls}. w: the word table alone. n = {n:,}.{mean}"
        f"{without}{f' Without a value: {refused}.' if refused else ''}"
    )


def _findings(table: pd.DataFrame) -> Iterator[Untested]:
    """Yield CKA of the last layers in each panel; none on words without their form's mean."""
    if table["of"].iloc[0] not in WHOLE:
        return
    panels = {}
    for name, rows in table[table["measure"] == CKA].groupby("panel", sort=False):
        last = rows[(rows["layer"] == rows["layer"].max()) & (rows["other_layer"] == rows["other_layer"].max())]
        panels[str(name)] = float(last["adjusted"].mean())
    if panels:
        yield Untested(LAST, panels, table.loc[~table["twin"], "seed"].nunique())


VIEWS = (
    View(
        name="similarity",
        needs=("similarity",),
        rows=_rows,
        by="number",
        form=Matrix(
            points=similarity,
            x="other_layer",
            y="layer",
            columns="title",
            value="adjusted",
            labels=("Layer of the second model", "Layer of the first model"),
            bar="(value − null) / (1 − null)",
            names={-1: "w"},
        ),
        caption=_caption,
        findings=_findings,
        remakes="Vázquez et al. 2021, RSA and PWCCA between encoders",
    ),
)
