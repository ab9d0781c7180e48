"""Tables of numbers on the page of `isoscope geometry`: the last layer of each checkpoint and of its twin."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from isoscope.platform.config.declared import title
from isoscope.platform.report.numbers import score
from isoscope.studies.checkpoint_views import KINDS, LAST_LAYER, TASKS, as_measured
from isoscope.studies.fusion.token_cosines import PARTS

Tables = Mapping[str, pd.DataFrame]
FARTHEST = 8
"""How many outlying dimensions of a checkpoint are named."""


class Numbers(NamedTuple):
    """A table on the page: the stored table it needs, its caption, its column heads, and the rows it shows."""

    needs: str
    caption: str
    heads: Mapping[str, str]
    chosen: Callable[[pd.DataFrame], pd.DataFrame]

    def rows(self, tables: Tables) -> list[list[tuple[str, bool]]]:
        """Return each cell's text and whether it is a number. Counts are whole; other numbers have three decimals."""
        table = self.chosen(tables[self.needs])[[*self.heads]]
        return [[_cell(value) for value in row] for row in table.itertuples(index=False, name=None)]


def _cell(value: Any) -> tuple[str, bool]:
    if isinstance(value, str):
        return value, False
    return (f"{value:,}" if isinstance(value, int) else score(number(value))), True


def number(value: Any) -> float | None:
    """Return a number of a table as a float; None if it is missing or not finite."""
    return None if value is None or not np.isfinite(value) else float(value)


def last_layer(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each checkpoint's last layer."""
    return table[table["layer"] == table.groupby("checkpoint")["layer"].transform("max")]


def beside_twin(table: pd.DataFrame, *keys: str, value: str = "value") -> pd.DataFrame:
    """Return the checkpoints' rows, with the random twin's `value` in a column `twin`."""
    keys = ("checkpoint", *keys)
    random = table[table["step"].isna()].rename(columns={value: "twin"})
    return table[table["step"].notna()].merge(random[[*keys, "twin"]], on=keys, how="left")


def summary(tables: Tables) -> list[dict[str, Any]]:
    """Return a row per checkpoint and kind of sentence vector at the last layer.

    Keys: checkpoint, vectors, layer, n, d, and per metric its value, the random twin's and that of isotropic noise
    (None: no number). Metrics that were not measured are left out. No metric measured: no rows.
    """
    if "geometry" not in tables:
        return []
    table = tables["geometry"]
    table = last_layer(table[(table["vectors"] != "words") & table["figure"].isin(LAST_LAYER)])
    found = []
    beside = beside_twin(table, "vectors", "figure").rename(columns={"baseline": "noise"})
    for (checkpoint, vectors), own in beside.groupby(["checkpoint", "vectors"], sort=False):
        row = {"checkpoint": checkpoint, "vectors": vectors, "called": KINDS[str(vectors)]}
        row |= {name: int(own[name].iloc[0]) for name in ("layer", "n", "d")}
        figures = own.set_index("figure")[["value", "twin", "noise"]].to_dict("index")
        shown = [one for one in LAST_LAYER if one in figures]
        found.append(row | {one: {name: number(value) for name, value in figures[one].items()} for one in shown})
    return found


def geometry_rows(tables: Tables) -> list[dict[str, Any]]:
    """Return every metric at the last layer of each checkpoint, with the values of its twin and of noise."""
    if "geometry" not in tables:
        return []
    table = beside_twin(last_layer(tables["geometry"]), "vectors", "figure")
    order = [table.groupby(by, sort=False).ngroup() for by in ("vectors", ["vectors", "figure"])]
    table = table.iloc[np.lexsort(order[::-1])]
    numbers = ["value", "low", "high", "twin", "baseline"]
    return [
        {**row, **{name: number(row[name]) for name in numbers}, "title": title(row["figure"])}
        for row in table[["vectors", "figure", "checkpoint", *numbers, "n", "d"]].to_dict("records")
    ]


def _outliers(dimensions: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for (checkpoint, snapshot), own in dimensions.groupby(["checkpoint", "snapshot"], sort=False):
        far = own[own["outlier"].astype(bool)]
        far = far.assign(far=(far["mean"] - own["mean"].median()).abs()).nlargest(FARTHEST, "far")
        named = [f"{int(one)} ({score(mean)})" for one, mean in zip(far["dimension"], far["mean"], strict=True)]
        who = checkpoint if own["step"].notna().all() else f"{checkpoint}, {snapshot}"
        counts = int(own["outlier"].sum()), ", ".join(named) or "none"
        rows.append((who, *counts, float(own["kurtosis"].median()), int(own["n"].iloc[0]), len(own)))
    return pd.DataFrame(rows, columns=["who", "count", "farthest", "kurtosis", "n", "d"])


SIZE = {"n": "n", "d": "d"}
NUMBERS = {
    "probing": (
        Numbers(
            "probing",
            "What does a linear probe read at the last layer? Compare accuracy with the random twin and with chance.",
            {
                "figure": "Task",
                "vectors": "Vectors",
                "checkpoint": "Checkpoint",
                "value": "Accuracy",
                "twin": "Random twin",
            }
            | {"chance": "Chance", "baseline": "Control", "selectivity": "Selectivity", "compression": "Code", **SIZE},
            lambda table: beside_twin(last_layer(as_measured(table)), "vectors", "figure").replace({"figure": TASKS}),
        ),
        Numbers(
            "baselines",
            "Baselines on the same folds, without an encoder. TF-IDF counts only in these sentences: there is no "
            "training split.",
            {"baseline": "Baseline", "task": "Task", "checkpoint": "Checkpoint", "score": "Accuracy"}
            | {"chance": "Chance", **SIZE},
            lambda table: table.replace({"task": TASKS}),
        ),
    ),
    "embedding": (
        Numbers(
            "cosines",
            "How similar are tokens of different sentences? Mean cosine by kind of pair; compare with the random twin.",
            {"checkpoint": "Checkpoint", "part": "Part", "pairs": "Pairs", "cosine": "Mean cosine"}
            | {"twin": "Random twin", "n": "n (pairs)"},
            lambda table: beside_twin(table, "part", "pairs", value="cosine").replace({"part": PARTS}),
        ),
        Numbers(
            "dimensions",
            "Which hidden dimensions are outliers? Their mean or sd is more than 6 median absolute deviations (scaled "
            "to an sd) from the median.",
            {"who": "Checkpoint", "count": "Outliers", "farthest": "Farthest (mean)", "kurtosis": "Median kurtosis"}
            | SIZE,
            _outliers,
        ),
    ),
    "spectrum": (
        Numbers(
            "spectrum",
            "Spectral flatness and share of near-dead frequencies. Compare each with its value after the hidden axes "
            "are permuted.",
            {"who": "Checkpoint", "part": "Part", "flatness": "Flatness", "flatness_permuted": "permuted"}
            | {"dead": "Near-dead", "dead_permuted": "permuted", **SIZE},
            lambda table: table.assign(
                who=table["checkpoint"] + np.where(table["best"].astype(bool), "", ", random"),
                part=table["part"].map(PARTS),
            ),
        ),
    ),
    "spaces": (
        Numbers(
            "counts",
            "Which words are compared?",
            {"words": "Words", "occurrences": "Occurrences", "sentences": "Sentences"},
            lambda table: table.astype({"occurrences": "Int64"}).astype({"occurrences": object}).replace({pd.NA: None}),
        ),
    ),
    "topology": (
        Numbers(
            "distances",
            "How far is a checkpoint's persistence diagram from its random twin's?",
            {"checkpoint": "Checkpoint", "vectors": "Vectors", "degree": "Degree", "bottleneck": "Bottleneck"}
            | {"wasserstein": "1-Wasserstein", "n": "n"},
            lambda table: table[table["moment"] == "random"].assign(
                degree=lambda rows: "H" + rows["degree"].astype(str)
            ),
        ),
    ),
}
"""Section of the page → its tables of numbers."""
