"""Measures after a transform of the representations, beside the measures of the same points without a transform."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.base.built_in import TRANSFORMS
from isoscope.base.view import Table, View
from isoscope.platform.config.declared import title
from isoscope.platform.figures.form import in_order
from isoscope.platform.figures.interval_form import Intervals
from isoscope.platform.figures.text_form import Texts
from isoscope.platform.statistics.differences import differences
from isoscope.platform.statistics.findings import of_row
from isoscope.platform.statistics.paired import judge
from isoscope.states.choices import GIVEN
from isoscope.states.shown_metrics import COMPARED, OF_PAIRS

ASKED = ("sts", "a_1", "avg_sim")
"""Metrics in which transforms and arms are compared: agreement with people, and anisotropy."""
CALLED = {name: name.replace("_", "-").replace("none", "no transform") for name in TRANSFORMS}
VECTORS = {
    "first": "the first token ([CLS])",
    "last": "the last token",
    "mean": "the mean over tokens",
    "sentence": "the sentence vector (sentence-transformers)",
    "words": "sampled words",
    GIVEN: "the given vectors",
    **OF_PAIRS,
}
COLUMNS = ["metric", "vectors", "arm", "transform", "seeds", "mean", "sd", "difference", "low", "high", "p_holm"]


def together(folders: Mapping[tuple[str, int], Path]) -> pd.DataFrame:
    """Return the tables `transformed` of runs, by arm and seed, below each other; empty if no run has such a table."""
    files = {key: folder / "transformed.parquet" for key, folder in folders.items()}
    parts = [pd.read_parquet(file).assign(arm=arm, seed=seed) for (arm, seed), file in files.items() if file.is_file()]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def compared(
    table: pd.DataFrame, against: Mapping[str, str], *, confidence: float, power: float, margin: float
) -> pd.DataFrame:
    """Compare each arm after each transform with its reference arm (`against`) without a transform, by seed.

    At the last layer and the chosen snapshot. Columns: `COLUMNS`, verdict, reason. mean and sd: over seeds; the others
    as in `statistics.differences`, where a family has all arms after all transforms of a metric of a kind of vectors.
    """
    rows = _ends(table[table["metric"].isin(ASKED)])
    rows = rows.assign(measured=rows["metric"], metric=rows["metric"] + " of " + rows["vectors"])
    rows = rows.assign(both=rows["arm"] + ", " + rows["transform"])
    keys = ["measured", "vectors", "arm", "transform", "metric", "both"]
    means = rows.groupby(keys, sort=False)["value"].agg(seeds="count", mean="mean", sd="std").reset_index()
    references = {f"{arm}, {name}": f"{of}, none" for arm, of in against.items() for name in TRANSFORMS}
    named = rows.drop(columns="arm").rename(columns={"both": "arm"})
    tested = differences(named, against=references, confidence=confidence, power=power)
    options: dict[str, Any] = {"confidence": confidence, "margin": margin}
    verdicts = [
        of_row(row, row["metric"], **options, above=_above_chance(row)).verdict for row in tested.to_dict("records")
    ]
    words = pd.DataFrame(verdicts, columns=["verdict", "reason"])
    known = pd.concat([tested[["metric", "arm", *COLUMNS[7:]]].rename(columns={"arm": "both"}), words], axis=1)
    found = means.sort_values("metric", kind="stable").merge(known, on=["metric", "both"], how="left")
    own = found["both"] == found["both"].map(references)
    unpaired = judge(None, None, p_holm=None, detectable=None, confidence=confidence, margin=margin)
    for name, of_reference, none in zip(words, ("reference", ""), unpaired, strict=True):
        found[name] = found[name].fillna(none).mask(own, of_reference)
    return found.drop(columns="metric").rename(columns={"measured": "metric"})[[*COLUMNS, *words]]


def _above_chance(row: Mapping[str, Any]) -> tuple[float, ...]:
    """Return by how much both sides are better than equal vectors, whose scores correlate with nothing."""
    return (row["mean"], row["mean_reference"]) if str(row["metric"]).startswith("sts ") else ()


def at_the_end(table: pd.DataFrame) -> Table:
    """Return the compared metrics of the last layer at the chosen snapshot, or at the last if none was chosen."""
    return (_ends(table).dropna(subset="value"),)


def _ends(table: pd.DataFrame) -> pd.DataFrame:
    """Return what `at_the_end` returns, with the rows without a number: no other layer or snapshot replaces them."""
    rows = table[table["step"].notna() & table["metric"].isin(COMPARED)]
    runs = rows.groupby([name for name in ("arm", "seed") if name in rows], sort=False)
    chosen, last = (rows[name] == runs[name].transform("max") for name in ("best", "step"))
    there = runs["best"].transform("max").astype(bool)
    return rows[(rows["layer"] == runs["layer"].transform("max")) & chosen.where(there, last)]


def _points(table: pd.DataFrame) -> pd.DataFrame:
    table = in_order(table, "transform", TRANSFORMS)
    # Intervals of single runs are over pairs, those of a study are over seeds.
    left_out = ["note", "gap", *(["low", "high"] if "seed" in table else [])]
    return table.assign(metric=table["metric"].map(title)).drop(columns=left_out, errors="ignore")


def _caption(table: pd.DataFrame) -> str:
    n, fitted = (", ".join(f"{one:,}" for one in sorted(table[name].unique())) for name in ("n", "fitted_on"))
    seeds = " Small dots: seeds; line: ± 1 sd." * ("seed" in table)
    return (
        f"Measures of {VECTORS[table['vectors'].iloc[0]]} at the last layer, after a transform that is fitted on other "
        f"sentences.{seeds} n = {n}; fitted on {fitted} points."
    )


def _named(table: pd.DataFrame) -> pd.DataFrame:
    names = {"metric": title, "vectors": VECTORS, "transform": CALLED}
    return table.assign(**{column: table[column].map(of) for column, of in names.items()})


COMPARISON = View(
    name="transforms",
    needs=("transforms",),
    form=Texts(
        points=_named,
        heads={"metric": "Metric", "vectors": "Vectors", "arm": "Arm", "transform": "Transform", "seeds": "n"}
        | {"mean": "Mean", "sd": "sd", "difference": "Difference", "low": "from", "high": "to", "verdict": "Verdict"},
    ),
    caption="Is a transform after training worth as much as a penalty during it? Each arm after each transform, at the "
    "last layer, minus the reference arm without a transform, over the seeds that both have. Interval: paired t. n: "
    "seeds. Transforms are fitted on sentences that are not measured.",
)


def view(**changes: Any) -> View:
    """Return the view of `transformed`: a panel per metric, a row per transform, a series per arm."""
    about: dict[str, Any] = {"needs": ("transformed",), "rows": at_the_end, "by": "vectors", "caption": _caption}
    form = Intervals(points=_points, x="value", y="transform", series="arm", columns="metric", names=CALLED)
    return View(**{"name": "transformed", "form": form, **about, **changes})
