"""How two finished runs differ in what they wrote: files, metrics, golden traces, predictions."""

import filecmp
import json
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import binomtest

from isoscope.base.atomic_files import MANIFEST
from isoscope.platform.outputs import PREDICTIONS, TRANSLATIONS
from isoscope.platform.runs.card import CARD
from isoscope.platform.runs.output_files import CONFIG, METRICS, points_of
from isoscope.platform.statistics.paired import paired_t

TRACED, LETTERS = ("loss", "gradient norm"), 120  # of an update; of a text, at most
ONCE = ("test/", "posthoc/", "training/")
"""Metrics of the end of a run, whichever update that is."""


def unequal_files(a: Path, b: Path) -> tuple[list[str], list[str], int]:
    """Return the names of the files that differ in any bit, of those that one folder lacks, and how many are in both.

    Files that publishing writes are left out: they name a study.
    """
    files = [one.relative_to(folder) for folder in (a, b) for one in folder.rglob("*") if one.is_file()]
    names = {one for one in files if one.name not in (CONFIG, CARD, MANIFEST) and not one.name.startswith(".")}
    both = [one for one in names if (a / one).is_file() and (b / one).is_file()]
    unequal = {one for one in both if not filecmp.cmp(a / one, b / one, shallow=False)}
    found = (sorted(one.as_posix() for one in some) for some in (unequal, names - {*both}))
    return *found, len(both)  # type: ignore[return-value]


def points(a: Path, b: Path) -> pd.DataFrame:
    """Return the metrics of two outputs, and the numbers of their golden traces as `trace/…`: name, step, a, b, both.

    Step 0: before training; of the end of a run (`ONCE`): the last update of a. What a run lacks is missing; `both`:
    neither lacks it, so a missing number is the NaN that the run logged.
    """
    one, other = map(_points, (a, b))
    ends = {name: step for name, step in [*other, *one] if name.startswith(ONCE)}
    one, other = ({(name, ends.get(name, step)): value for (name, step), value in of.items()} for of in (one, other))
    rows = [(*key, one.get(key), other.get(key), key in one and key in other) for key in one | other]
    return pd.DataFrame(rows, columns=["name", "step", "a", "b", "both"])


def _points(output: Path) -> dict[tuple[str, int], float]:
    file = output / "trace.json"
    trace = json.loads(file.read_text("utf-8")) if file.is_file() else {"validation": {}, "steps": [], "weights": None}
    pairs = [(step, one) for step, pair in enumerate(trace["steps"], start=1) for one in zip(TRACED, pair, strict=True)]
    found = {(f"validation/{name}", 0): value for name, value in trace["validation"].items()}
    found |= {(name, step): value for step, (name, value) in pairs}
    found |= {("hash of the weights", pairs[-1][0]): f"0x{trace['weights'][:12]}"} if trace["weights"] else {}
    metrics = {(one["name"], one["step"]): float(one["value"]) for one in points_of(output / METRICS)}
    return metrics | {(f"trace/{name}", step): float.fromhex(value) for (name, step), value in found.items()}


def compared(points: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Return the paired comparison of arms by metric of the test split: B − A over pairs of runs, with its t interval.

    Columns arm, metric, n, a, b (means), difference, low, high, p (not corrected for the number of metrics). A metric
    without a number at one pair has no difference; a metric of one side alone has no row.
    """
    own, rows = points[points["name"].str.startswith("test/")], []
    arms = own["pair"].map(lambda pair: str(pair).rpartition("/")[0])
    for (arm, name), rest in own.groupby([arms, "name"], sort=False):
        if not rest["both"].any():
            continue
        test = paired_t([*(rest["b"] - rest["a"])], confidence=confidence, scale=rest[["a", "b"]].abs().max().max())
        means = rest[["a", "b"]].mean(skipna=False)
        rows.append((arm, name, test.n, *means, test.mean, *(test.interval or (None, None)), test.p))
    return pd.DataFrame(rows, columns=["arm", "metric", "n", "a", "b", "difference", "low", "high", "p"])


def predictions(a: Path, b: Path, data: Path | None) -> dict[str, pd.DataFrame]:
    """Return how predictions, or translations, of the test split differ; no tables if the runs predict none per row.

    - `flips`: the rows that differ: row, true, a, b and, with the prepared `data`, text and names of classes.
    - `mcnemar`: rows, flipped; if predictions can be right, right_a and right_b (right in that run alone), and p.
    """
    one, other = map(_predicted, (a, b))
    if "said" not in one or "said" not in other or not one.index.equals(other.index):
        return {}
    table = one.rename(columns={"said": "a"}).assign(b=other["said"])
    flips = table[table["a"] != table["b"]].reset_index()
    counts = pd.DataFrame({"rows": [len(table)], "flipped": len(flips)})
    if "true" in flips:
        alone = [int((flips[side] == flips["true"]).sum()) for side in "ab"]
        counts = counts.assign(right_a=alone[0], right_b=alone[1], p=mcnemar(*alone))
    if data is not None:
        manifest = json.loads((data / "manifest.json").read_text("utf-8"))
        names = {str(place): label for place, label in enumerate(manifest.get("labels") or ())}
        texts = pd.read_parquet(data / "test.parquet", columns=manifest["columns"]).astype(str).agg(" / ".join, axis=1)
        named = flips.replace({name: names for name in ("true", "a", "b") if name in flips})
        flips = named.assign(text=texts.str.slice(0, LETTERS).iloc[flips["row"]].to_numpy())
    return {"mcnemar": counts, "flips": flips}


def mcnemar(right_a: int, right_b: int) -> float:
    """Return the exact two-sided p of McNemar's test, of the rows that are right in one run alone; 1 without any."""
    return float(binomtest(right_a, right_a + right_b).pvalue) if right_a + right_b else 1.0


# What a run says of each row, and what is true, as text; no columns without a class, label set or text.
def _predicted(output: Path) -> pd.DataFrame:
    file = next((output / one for one in (TRANSLATIONS, PREDICTIONS) if (output / one).is_file()), None)
    table = pd.DataFrame() if file is None else pd.read_parquet(file).set_index("row").select_dtypes(exclude="floating")
    patterns = {"true": r"^label(_\d+)?$", "said": r"^(predicted|translation)(_\d+)?$"}
    columns = {side: table.filter(regex=pattern).map(_text) for side, pattern in patterns.items()}
    return pd.DataFrame({side: one.agg(" ".join, axis=1) for side, one in columns.items() if not one.empty})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else f"{value + 0}"  # of a bool, 0 or 1
