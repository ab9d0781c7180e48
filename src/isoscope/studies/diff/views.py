"""Views of `isoscope diff`. The terminal shows those that are tables, and the page all of them.

Of several pairs of runs, a row is the mean over the pairs, or has a column that names its pair.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd

from isoscope.base.view import Table, View, under
from isoscope.platform.figures.interval_form import Intervals
from isoscope.platform.figures.line_form import Curves, Profile
from isoscope.platform.figures.numbers import written
from isoscope.platform.figures.text_form import Texts

SIDES = {"a": "A", "b": "B"}
CKA = "CKA by layer of the chosen snapshots, on the same sentences. 1: equal up to rotation, scale and shift."


def _texts(heads: Mapping[str, str], digits: int = 3) -> Texts:
    """Return the form of a table: column → head. A number has `digits` significant digits."""

    def points(table: pd.DataFrame) -> pd.DataFrame:
        every = {"pair": "Pair"} | dict(heads) if any(table.get("pair", ())) else heads
        shown = {name: head for name, head in every.items() if name in table}
        return table[[*shown]].rename(columns=shown).map(partial(_cell, digits))

    return Texts(points=points)


def _cell(digits: int, value: Any) -> Any:
    if isinstance(value, str | int):
        return value
    return written(value, f".{digits}g") if pd.isna(value) or value != value // 1 else int(value)


def _identity(table: pd.DataFrame) -> Table:
    """Return what differs, with the number of pairs: first parameters, of which those that both sides have."""
    found = table.groupby(["kind", "name", "text"], sort=False).size().reset_index(name="pairs")
    order = (found["kind"] != "parameter") * 2 + found["text"].str.contains(r" absent(?: →|$)")
    return (found.loc[order.sort_values(kind="stable").index, [*found][: 4 if any(table["pair"]) else 3]],)


def _metrics(table: pd.DataFrame) -> Table:
    """Return each metric at its last common update, and at the first common update at which it differs."""
    own = table[table["both"] & ~table["name"].str.startswith("trace/")].sort_values("step", kind="stable")
    since = own[_unequal(own)].groupby("name")["step"].min().rename("since")
    there = own.merge(since.reset_index(), on="name").query("step == since")
    last = own.groupby(["pair", "name"], sort=False).tail(1)
    found = _means(last).join(_means(there).add_prefix("first_"))
    return (found.reset_index().sort_values("first_step", kind="stable"),)


def _unequal(points: pd.DataFrame) -> pd.Series:
    return (points["a"] != points["b"]) & ~(points["a"].isna() & points["b"].isna())


def _means(points: pd.DataFrame) -> pd.DataFrame:
    """Return the means over pairs; "NaN" where a run logged NaN."""
    return _nan_said(points.groupby("name", sort=False)[["step", "a", "b"]].mean(skipna=False))


def _nan_said(points: pd.DataFrame) -> pd.DataFrame:
    return points.astype({"a": object, "b": object}).fillna("NaN")


def _traces(table: pd.DataFrame) -> Table:
    """Return the first number of each pair's golden traces that differs; without it, the pair alone."""
    own = table[table["both"] & table["name"].str.startswith("trace/")].sort_values("step", kind="stable")
    own = _nan_said(own.drop(columns="both"))
    return (own[["pair"]].drop_duplicates().merge(own[own["a"] != own["b"]].drop_duplicates("pair"), how="left"),)


def _apart(by: str, table: pd.DataFrame) -> Table:
    """Return equal bits, relative distance and cosine of the weights of each place."""
    own = table.assign(tensors=1, equal=table["equal"].astype(float)).dropna(subset="equal")
    sums = own.groupby(by, sort=False)[["tensors", "equal", "aa", "bb", "ab", "dd"]].sum()
    angle = {"cosine": sums["ab"] / (sums["aa"] * sums["bb"]) ** 0.5}
    return (sums.assign(distance=(sums["dd"] / sums["aa"]) ** 0.5, **angle).reset_index(),)


VIEWS = (
    *under(
        "What determines the numbers?",
        View(
            name="identity",
            needs=("identity",),
            rows=_identity,
            form=_texts({"kind": "Part", "text": "A → B", "pairs": "Pairs"}),
            caption="Identity: what differs in parameters, data, code, plug-ins, inputs and environment.",
        ),
    ),
    *under(
        "What do the runs score?",
        View(
            name="comparison",
            needs=("comparison",),
            form=_texts(
                {"arm": "Arm", "metric": "Metric", "n": "Pairs", **SIDES}
                | {"difference": "B − A", "low": "Low", "high": "High", "p": "p"}
            ),
            caption="Test split, paired by seed: t interval and p of the difference, not corrected for many metrics.",
        ),
        View(
            name="metrics",
            needs=("points",),
            rows=_metrics,
            form=_texts(
                {"name": "Metric", "step": "Update", **SIDES}
                | {"first_step": "First differs at", "first_a": "A there", "first_b": "B there"},
                digits=9,
            ),
            caption="Metrics at the last common update, and at the first update at which they differ in a pair; means "
            "over pairs. Scores of the end of a run: each at its own.",
        ),
        View(
            name="traces",
            needs=("points",),
            rows=_traces,
            form=_texts({"step": "Update", "name": "What", **SIDES}, digits=9),
            caption="Golden traces: the first number that differs; a dash: none. Update 0: before training.",
        ),
        View(
            name="curves",
            needs=("points",),
            rows=lambda table: (
                table[table["name"].str.match("(validation|train)/")].melt(["name", "step"], ["a", "b"], "side"),
            ),
            form=Curves(x="step", y="value", series="side", columns="name", labels=("Update", ""), names=SIDES),
            caption="Metrics over updates of A and B. Of several pairs: means ± 1 sd.",
        ),
    ),
    *under(
        "Which weights differ?",
        View(
            name="weights",
            needs=("weights",),
            rows=partial(_apart, "place"),
            form=_texts(
                {"place": "Place", "tensors": "Tensors", "equal": "Equal bits", "distance": "Distance"}
                | {"cosine": "Cosine"}
            ),
            caption="Weights of the selected checkpoints. Distance: ‖A − B‖ / ‖A‖.",
        ),
        View(
            name="distances",
            needs=("weights",),
            rows=partial(_apart, "component"),
            form=Intervals(x="distance", y="component", labels=("Distance ‖A − B‖ / ‖A‖", "")),
            caption="Distance of weights by layer and component.",
        ),
        View(
            name="unshared",
            needs=("weights",),
            rows=lambda table: (table[table["equal"].isna()],),
            form=_texts({"name": "Tensor", "a": "Shape in A", "b": "Shape in B"}),
            caption="Tensors of one side alone, or of two shapes.",
        ),
    ),
    *under(
        "Which predictions flipped?",
        View(
            name="flipped",
            needs=("mcnemar",),
            form=_texts(
                {"rows": "Rows", "flipped": "Flipped", "right_a": "Right in A alone", "right_b": "Right in B alone"}
                | {"p": "p"}
            ),
            caption="Predictions on the test split. p: McNemar's exact test.",
        ),
        View(
            name="flips",
            needs=("flips",),
            form=_texts({"row": "Row", "true": "True", **SIDES, "text": "Text"}),
            caption="Rows of the test split with another prediction.",
        ),
    ),
    *under(
        "Are the representations alike?",
        View(
            name="alike",
            needs=("representations",),
            rows=lambda table: (
                table.pivot_table("cka", "vectors", "layer", sort=False).add_prefix("Layer ").reset_index(),
            ),
            form=Texts(),
            caption=CKA,
        ),
        View(
            name="cka",
            needs=("representations",),
            form=Profile(y="cka", series="vectors", labels=("Layer", "CKA")),
            caption=CKA,
        ),
    ),
    View(name="notes", needs=("notes",), form=_texts({"note": "Note"}), caption="Notes.", question="Notes"),
)
