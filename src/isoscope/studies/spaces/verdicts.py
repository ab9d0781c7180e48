"""View: are two models' spaces less alike than two seeds of one model?"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from isoscope.base.view import View
from isoscope.platform.figures.form import where
from isoscope.platform.figures.line_form import Profile
from isoscope.platform.statistics.findings import Difference
from isoscope.platform.statistics.paired import Interval, Verdict
from isoscope.studies.spaces.similarity_maps import CALLED, CKA, WHOLE

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


def _caption(table: pd.DataFrame) -> str:
    counts = table["word"].value_counts()
    words = ", ".join(f"{word} {count}" for word, count in counts.items())
    return (
        "Similarity of layers of equal number, as (value − null)/(1 − null): of two models at different seeds, next to "
        "two seeds of one model (the ceiling). Verdicts (p by Holm over the layers of a pair and measure, intervals "
        f"over seeds and sentences; held-out CCA: given its fitted directions), {len(table)} in all: {words}. "
        f"n = {int(table['n'].min())} seeds."
    )


def _findings(table: pd.DataFrame) -> Iterator[Difference]:
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


def _rows(table: pd.DataFrame) -> tuple[pd.DataFrame, ...]:
    numbered = table.assign(number=pd.factorize(table["of"])[0]) if len(table) else table.assign(number=np.nan)
    return (numbered,)


VIEWS = (
    View(
        name="told_apart",
        needs=("told_apart",),
        rows=_rows,
        by="number",
        form=Profile(
            points=apart,
            series="pair",
            dash="of_whom",
            columns="measure",
            names=CALLED | {BETWEEN: BETWEEN, WITHIN: WITHIN},
        ),
        caption=_caption,
        findings=_findings,
    ),
)
