"""The tables of one study on disk: what the figures and the report read."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from isoscope.analysis.comparison import Baselines, Comparison, compare
from isoscope.analysis.confusion import confusion
from isoscope.analysis.curves import bands, curves
from isoscope.analysis.outputs import Trained, read_output
from isoscope.analysis.statistics import Interval, Paired
from isoscope.analysis.verdicts import Verdict
from isoscope.errors import InputError
from isoscope.sealing import write_text

CURVES, CONFUSION, COMPARISON = "curves.csv", "confusion.csv", "comparison.json"
TEXTS = ("study", "arm", "actual", "predicted")
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Tables(NamedTuple):
    """What is known of one study: bands of its curves, confusion counts, the comparison of its arms, and its runs."""

    study: str
    bands: pd.DataFrame
    confusion: pd.DataFrame
    comparison: list[Comparison]
    runs: list[Trained]
    confidence: float
    """Coverage of its intervals."""
    power: float
    """Power at which its minimum detectable effects are stated."""
    margin: float
    """The smallest difference that counts."""

    @property
    def by_name(self) -> dict[str, pd.DataFrame]:
        """The tables that views are made of."""
        return {"bands": self.bands, "confusion": self.confusion}


def tables(
    study: str, outputs: Sequence[Path], baselines: Baselines, *, confidence: float, power: float, margin: float
) -> Tables:
    """All tables of one study, from the folders of its finished runs, reference arm first.

    `baselines` of its task. Raises `InputError` for anything amiss in a folder, or where it is of another study.
    """
    runs = [read_output(folder).run for folder in outputs]
    for folder, run in zip(outputs, runs, strict=True):
        if run.study != study:
            raise InputError(f"{folder}: a run of study {run.study!r}, not of {study!r}")
    by_task = {run.task: baselines for run in runs}
    settings = {"confidence": confidence, "power": power, "margin": margin}
    rows = compare(outputs, by_task, **settings)
    return Tables(study, bands(curves(outputs)), confusion(outputs), rows, runs, **settings)


def write_tables(folder: Path, made: Tables) -> None:
    """Write curves.csv, confusion.csv and comparison.json into `folder`; equal tables give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in ((CURVES, made.bands), (CONFUSION, made.confusion)):
        texts = {column: frame[column].map(_inert) for column in TEXTS if column in frame}
        write_text(folder / name, frame.assign(**texts).to_csv(index=False, lineterminator="\n"), "table")
    rest = {name: value for name, value in made._asdict().items() if name not in ("bands", "confusion")}
    text = json.dumps(_plain(rest), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(folder / COMPARISON, text, "table")


def read_tables(folder: Path) -> Tables:
    """What `write_tables` wrote. Raises `InputError` where a file is missing or of another form."""
    try:
        text = {"converters": dict.fromkeys(TEXTS, _as_it_was), "keep_default_na": False}
        rest = json.loads((folder / COMPARISON).read_text("utf-8"))
        return Tables(
            **rest
            | {
                "bands": pd.read_csv(folder / CURVES, na_values={"mean": "", "sd": ""}, **text),
                "confusion": pd.read_csv(folder / CONFUSION, **text),
                "comparison": [_comparison(row) for row in rest["comparison"]],
                "runs": [Trained(**run) for run in rest["runs"]],
            }
        )
    except FileNotFoundError as error:
        raise InputError(f"{error.filename}: no such file; run: isoscope repro") from None
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{folder}: not the tables of a study ({error}); run: isoscope repro") from None


def scores(comparison: Sequence[Comparison]) -> dict[str, dict[str, dict[str, float | int]]]:
    """Metric → arm → mean, sd, n of the test split, for `dvc metrics`; baselines are left to their manifest."""
    found: dict[str, dict[str, dict[str, float | int]]] = {}
    for row in comparison:
        if row.kind != "baseline":
            spread = {} if row.sd is None else {"sd": row.sd}
            found.setdefault(row.metric, {})[row.arm] = {"mean": row.mean, **spread, "n": len(row.seeds)}
    return found


def _inert(text: str) -> str:
    """A cell that no spreadsheet takes for a formula: an apostrophe before what one begins with (CSV injection)."""
    return f"'{text}" if text.lstrip("'")[:1] in FORMULA else text


def _as_it_was(cell: str) -> str:
    """The text that `_inert` made into a cell."""
    return cell[1:] if cell.startswith("'") and cell.lstrip("'")[:1] in FORMULA else cell


def _plain(value: Any) -> Any:
    """Named tuples as mappings, all the way down."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _comparison(row: dict[str, Any]) -> Comparison:
    for name in ("seeds", "paired_seeds"):
        row[name] = tuple(row[name])
    if (paired := row["paired"]) is not None:
        interval = paired["interval"]
        row["paired"] = Paired(**{**paired, "interval": None if interval is None else Interval(**interval)})
    row["two_way"] = None if row["two_way"] is None else Interval(**row["two_way"])
    row["verdict"] = None if row["verdict"] is None else Verdict(**row["verdict"])
    return Comparison(**row)
