"""Write and read a study's tables, which figures and report use."""

import json
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from isoscope.base.atomic_files import replacing, write_text
from isoscope.base.errors import InputError
from isoscope.base.metric import Metric
from isoscope.base.parquet import write_parquet
from isoscope.base.paths import TABLES
from isoscope.platform.figures.csv_text import as_it_was, csv_text
from isoscope.platform.outputs import Trained, metrics_in
from isoscope.platform.results.paired_comparison import ArmRow, StudyRuns, compare_arms
from isoscope.platform.runs.lines import plain

FILES = {"bands": "curves.csv", "confusion": "confusion.csv", "layers": "layers.csv"}
"""Tables that `dvc plots` reads; the others are parquet files in `TABLES`."""
COMPARISON = "comparison.json"
TEXTS = ("study", "arm", "actual", "predicted")


READ: dict[str, TypeAdapter[Any]] = {"comparison": TypeAdapter(list[ArmRow]), "runs": TypeAdapter(list[Trained])}
"""Named tuples in comparison.json."""


class StoredTables(Mapping[str, pd.DataFrame]):
    """The parquet tables of a folder by name; a table is read on access."""

    def __init__(self, folder: Path) -> None:
        self._paths = {path.stem: path for path in sorted(folder.glob("*.parquet"))}

    def __getitem__(self, name: str) -> pd.DataFrame:
        return pd.read_parquet(self._paths[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


class Tables(NamedTuple):
    """A study's tables, the comparison of its arms, and its runs."""

    study: str
    by_name: Mapping[str, Any]
    """Tables that views draw: those of a study's kinds, or of a comparison's kind."""
    comparison: list[ArmRow]
    runs: list[Trained]
    confidence: float
    """Coverage of the intervals."""
    power: float
    """Power of the minimum detectable effects."""
    margin: float
    """The smallest difference that counts."""

    @property
    def metrics(self) -> dict[str, Metric]:
        """What the objectives declare, by name."""
        return metrics_in(self.by_name["metrics"])


def tables(study: str, runs: StudyRuns, by_name: Mapping[str, Any], **settings: float) -> Tables:
    """Return the tables of a study's kinds with the comparison of its arms, reference arm first.

    `settings`: confidence, power, margin. Raises `InputError` if a run belongs to another study.
    """
    found = [run.output for seeds in runs.arms.values() for run in seeds.values()]
    for output in found:
        if output.run.study != study:
            raise InputError(f"{output.folder}: a run of study {output.run.study!r}, not of {study!r}")
    compared = compare_arms(runs.arms, runs.baselines, **settings)
    return Tables(study, by_name, compared, [output.run for output in found], **settings)


def write_tables(folder: Path, made: Tables) -> None:
    """Write tables and comparison.json into `folder`; a name that ends in `.json` is a file of its own.

    Equal tables give equal bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / TABLES, "table") as fresh:
        for name, table in made.by_name.items():
            if name in FILES:
                write_text(folder / FILES[name], csv_text(table), "table")
            elif name.endswith(".json"):
                write_text(fresh / name, json.dumps(table, separators=(",", ":")), "table")
            else:
                write_parquet(table, fresh / f"{name}.parquet")
    rest = {name: value for name, value in made._asdict().items() if name != "by_name"}
    text = json.dumps(plain(_plain(rest)), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(folder / COMPARISON, text, "table")


def read_tables(folder: Path) -> Tables:
    """Read what `write_tables` wrote. Raises `InputError` if a file is missing or malformed."""
    try:
        text = {"converters": dict.fromkeys(TEXTS, as_it_was), "keep_default_na": False}
        rest = json.loads((folder / COMPARISON).read_text("utf-8"))
        for_plots = {
            name: pd.read_csv(folder / file, na_values={"mean": "", "sd": ""}, **text)
            for name, file in FILES.items()
            if rest["runs"]
        }
        known = {name: READ[name].validate_python(rest[name]) for name in READ}
        by_name = ChainMap(for_plots, StoredTables(folder / TABLES))  # type: ignore[arg-type]
        if rest["runs"]:
            by_name["metrics"]  # tables of an earlier version have none, and comparisons of studies need none
        return Tables(**rest | known, by_name=by_name)
    except FileNotFoundError as error:
        raise InputError(f"{error.filename}: no such file; run: isoscope repro") from None
    except (ValueError, TypeError, KeyError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise InputError(f"{folder}: not the tables of a study ({why}); run: isoscope repro") from None


def scores(comparison: Sequence[ArmRow]) -> dict[str, dict[str, dict[str, float | int]]]:
    """Return metric → arm → mean, sd, n on the test split, for `dvc metrics`; no arm without a number at a seed.

    Baselines are only in their manifest.
    """
    found: dict[str, dict[str, dict[str, float | int]]] = {}
    for row in comparison:
        if row.kind != "baseline" and isfinite(row.mean):
            spread = {} if row.sd is None else {"sd": row.sd}
            found.setdefault(row.metric, {})[row.arm] = {"mean": row.mean, **spread, "n": len(row.seeds)}
    return found


def as_table(comparison: Sequence[ArmRow]) -> pd.DataFrame:
    """Return a row per metric and arm, with the fields of `ArmRow`; those of a field's fields follow an underscore."""
    return pd.json_normalize(_plain(list(comparison)), sep="_")


def _plain(value: Any) -> Any:
    """Turn named tuples into mappings, recursively."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
