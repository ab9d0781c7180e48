"""Views of two spaces: similarity of every two layers, maps between them, and verdicts."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.figures.form import in_order, where
from isoscope.platform.figures.interval_form import MARKED, Intervals
from isoscope.platform.figures.line_form import Profile
from isoscope.platform.figures.matrix_form import Matrix
from isoscope.platform.figures.numbers import count
from isoscope.platform.statistics.findings import Difference, Untested
from isoscope.platform.statistics.paired import Interval, Verdict
from isoscope.states.choices import ROWS

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
    shown = shown.assign(title=shown["measure"].map(CALLED) + "\n" + shown["panel"])
    return in_order(shown, "measure", SHOWN)[["layer", "other_layer", "adjusted", "title"]]


def _pairs(table: pd.DataFrame) -> Table:
    """Return a numbered figure per pair of models and kind of items: its panels are the pair and its references."""
    parts = [part.assign(number=number) for number, part in enumerate(_figures(table))]
    return (
        pd.concat(parts, ignore_index=True) if parts else table[table["of"] != ROWS].assign(number=np.nan, panel=None),
    )


def _of_rows(table: pd.DataFrame) -> Table:
    """Return the similarities of vectors of files, which have a single layer, by pair."""
    rows = in_order(table[(table["of"] == ROWS) & table["value"].notna()], "measure", [*CALLED])
    return (
        rows.assign(pair=rows["model"] + " × " + rows["other_model"], why=None).drop(columns=["seed", "other_seed"]),
    )


def _rows_alike(table: pd.DataFrame) -> Iterator[Untested]:
    """Yield CKA of each pair of files."""
    own = table[table["measure"] == CKA]
    if len(own):  # a space of equal vectors has no CKA
        yield Untested(LAST, dict(zip(own["pair"], own["adjusted"], strict=True)), int(own["n"].max()), "row")


def _rows_caption(table: pd.DataFrame) -> str:
    refused = (
        f" Without a value: {', '.join(name for key, name in CALLED.items() if key not in set(table['measure']))}."
    )
    return (
        "Similarity of the vectors of two files. Lines: jackknife over groups of rows. Stroke: the null, where rows, "
        f"or groups of them, are exchanged with groups of the same size. n = {table['n'].max():,} rows (RSA and "
        f"neighbours: {table['n'].min():,}).{refused * (table['measure'].nunique() < len(CALLED))}"
    )


def _figures(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    trained = table[~table["twin"] & (table["of"] != ROWS)]
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


def _pairs_caption(table: pd.DataFrame) -> str:
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


def _last_layers(table: pd.DataFrame) -> Iterator[Untested]:
    """Yield CKA of the last layers in each panel; none on words without their form's mean."""
    if table["of"].iloc[0] not in WHOLE:
        return
    panels = {}
    for name, rows in table[table["measure"] == CKA].groupby("panel", sort=False):
        last = rows[(rows["layer"] == rows["layer"].max()) & (rows["other_layer"] == rows["other_layer"].max())]
        panels[str(name)] = float(last["adjusted"].mean())
    if panels:
        seeds = table.loc[~table["twin"], "seed"].nunique()
        yield Untested(LAST, panels, seeds) if seeds else Untested(LAST, panels, int(table["n"].max()), "item")


SIMILARITY = View(
    name="similarity",
    needs=("similarity",),
    rows=_pairs,
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
    caption=_pairs_caption,
    findings=_last_layers,
    remakes="Vázquez et al. 2021, RSA and PWCCA between encoders",
)


SIMILAR_ROWS = View(
    name="similar_rows",
    needs=("similarity",),
    rows=_of_rows,
    form=Intervals(
        points=lambda table: table,
        x="value",
        y="measure",
        columns="pair",
        labels=("Similarity", ""),
        names=CALLED,
        beside={"null": "null: rows exchanged"},
    ),
    caption=_rows_caption,
    findings=_rows_alike,
)
MAP_MEASURES = {"r2": "R²", "retrieval_forward": "CSLS retrieval", "cosine_forward": "Cosine retrieval"}
MAPS = {"none": "no map", "procrustes": "rotation, scaling, shift", "ridge": "linear map"}
LOWEST = -0.6
"""Left end of the axes."""


def maps(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row per measure, direction, map and pair of spaces; R² alone has an interval and a null."""
    table = table.drop(columns=["seed", "other_seed"], errors="ignore")
    parts = [table.assign(value=table[name], shown=label) for name, label in MAP_MEASURES.items()]
    for other in parts[1:]:
        other[["low", "high", "null"]] = float("nan")
    return pd.concat(parts, ignore_index=True)


def _directions(table: pd.DataFrame) -> Table:
    """Return the rows with their direction, such as `A → B`; random-weights controls last."""
    ends = table[["model", "other_model"]].where(~table["back"], table[["other_model", "model"]].to_numpy())
    named = ends["model"] + " → " + ends["other_model"] + table["twin"].map({True: ", random weights", False: ""})
    table = table.assign(direction=named, number=pd.factorize(table["of"])[0])
    return (table.sort_values(["number", "twin", "direction"], kind="stable", ignore_index=True),)


def _maps_caption(table: pd.DataFrame) -> str:
    of, cut = table["of"].iloc[0], f" {MARKED}" * bool((table["r2"] < LOWEST).any())
    n = int(table["n"].min())
    return (
        f"How near a map brings the last layer of a model to that of another: {of}, of sentences that neither fitted "
        f"it (n = {int(table['n_fitted'].min()):,}) nor chose its penalty. n = {n:,}, of as many sentences. Lines: "
        "intervals over sentences; |: a map that was fitted with sentences exchanged. Retrieval: the own vector is the "
        f"nearest of all; chance is {1 / n:.4f}.{cut}"
    )


MAPS_BETWEEN = View(
    name="maps_between_spaces",
    needs=("maps",),
    rows=_directions,
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
    caption=_maps_caption,
    remakes="Vázquez et al. 2021, alignment of the spaces",
)


NUMBERS = ("low", "high", "detectable")
LESS, MORE = "holds: less alike", "holds: more alike"
BETWEEN, WITHIN = "two models", "two seeds of a model, mean of both"


def apart(table: pd.DataFrame) -> pd.DataFrame:
    """Return similarity by layer, of two models and of two seeds of a model; a mark where the verdict holds."""
    table = table.assign(pair=table["model"] + " × " + table["other_model"])
    holds, less = table["word"] == "holds", table["difference"] > 0
    mark = where(holds & less, LESS).fillna(where(holds & ~less, MORE))
    between = table.assign(value=table["between"], of_whom=BETWEEN, mark=mark)
    both = pd.concat([between, table.assign(value=table["within"], of_whom=WITHIN, mark=None)], ignore_index=True)
    return both.assign(seeds=both["n"]).drop(columns=["low", "high", "n"])


def _verdicts_caption(table: pd.DataFrame) -> str:
    counts = table["word"].value_counts()
    words = ", ".join(f"{word} {many}" for word, many in counts.items())
    return (
        "Similarity of layers of equal number, as (value − null)/(1 − null): of two models at different seeds, next to "
        "two seeds of one model (the ceiling). Verdicts (p by Holm over the layers of a pair and measure, intervals "
        f"over seeds and sentences; held-out CCA: given its fitted directions), {len(table)} in all: {words}. "
        f"n = {count(int(table['n'].min()), 'seed')}."
    )


def _verdicts(table: pd.DataFrame) -> Iterator[Difference]:
    """Yield the verdict by CKA on the last layer that both models have; none on words without their form's mean."""
    if table["of"].iloc[0] not in WHOLE:
        return
    of_cka = table[table["measure"] == CKA]
    for (one, other), pair in of_cka.groupby(["model", "other_model"], sort=False):
        last = pair.loc[pair["layer"].idxmax()]
        low, high, detectable = (None if pd.isna(last[name]) else float(last[name]) for name in NUMBERS)
        interval = None if low is None or high is None else Interval(low, high)
        yield Difference(
            f"CKA at layer {last['layer']} as (value − null)/(1 − null)",
            f"{one} and {other} ({last['between']:.2f})",
            f"two seeds of one model ({last['within']:.2f})",
            Verdict(str(last["word"]), str(last["reason"])),
            -float(last["difference"]),
            interval and Interval(-interval.high, -interval.low),
            int(last["n"]),
            detectable,
        )


def _numbered(table: pd.DataFrame) -> tuple[pd.DataFrame, ...]:
    return (table.assign(number=pd.factorize(table["of"])[0]),)


MODELS_AGAINST_SEEDS = View(
    name="models_against_seeds",
    needs=("models_against_seeds",),
    rows=_numbered,
    by="number",
    form=Profile(
        points=apart,
        series="pair",
        dash="of_whom",
        columns="measure",
        names=CALLED | {BETWEEN: BETWEEN, WITHIN: WITHIN},
    ),
    caption=_verdicts_caption,
    findings=_verdicts,
)
