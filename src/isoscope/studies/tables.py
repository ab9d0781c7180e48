"""Write and read a study's tables, which figures and report use."""

import json
from collections import ChainMap
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from isoscope.base.atomic_files import replacing, write_text
from isoscope.base.errors import InputError
from isoscope.base.metric import Metric
from isoscope.base.parquet import write_parquet
from isoscope.base.paths import TABLES
from isoscope.platform.figures.csv_text import as_it_was, csv_text
from isoscope.platform.outputs import Trained, metrics_in, table_of_metrics
from isoscope.studies.arms import ArmRow, Arms, Baselines, compare_arms
from isoscope.studies.curves import bands, curves, seeds
from isoscope.studies.results import confusion
from isoscope.studies.view import StoredTables

FILES = {"bands": "curves.csv", "confusion": "confusion.csv", "layers": "layers.csv"}
"""Tables that `dvc plots` reads; the others are parquet files in `TABLES`."""
LAYERS = ["figure", "arm", "layer", "step", "mean", "sd", "n"]
COMPARISON = "comparison.json"
TEXTS = ("study", "arm", "actual", "predicted")


READ: dict[str, TypeAdapter[Any]] = {"comparison": TypeAdapter(list[ArmRow]), "runs": TypeAdapter(list[Trained])}
"""Named tuples in comparison.json."""


class Tables(NamedTuple):
    """A study's tables, the comparison of its arms, and its runs."""

    study: str
    by_name: Mapping[str, Any]
    """Tables that views draw: `bands` and `seeds` of curves, `metrics` that the objectives declare, `confusion`
    (without rows if no run is a classifier), `layers` for `dvc plots`, and those of the study's kind.
    """
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


def tables(
    study: str,
    arms: Arms,
    baselines: Baselines,
    added: Mapping[str, Any] = MappingProxyType({}),
    *,
    confidence: float,
    power: float,
    margin: float,
) -> Tables:
    """Make all tables of a study from the results of its finished runs, reference arm first.

    `baselines`: of its task; `added`: the tables of its kind. Raises `InputError` if a run belongs to another study.
    """
    settings = {"confidence": confidence, "power": power, "margin": margin}
    found = [run.output for runs in arms.values() for run in runs.values()]
    for output in found:
        if output.run.study != study:
            raise InputError(f"{output.folder}: a run of study {output.run.study!r}, not of {study!r}")
    classifiers = [output for output in found if output.objective == "classification"]
    points = curves([output.folder for output in found])
    by_name = {"bands": bands(points), "confusion": confusion(classifiers), "seeds": seeds(points)}
    by_name["metrics"] = table_of_metrics(found)
    by_name |= {"layers": pd.DataFrame(columns=LAYERS), **added}
    runs = [output.run for output in found]
    return Tables(study, by_name, compare_arms(arms, baselines, **settings), runs, **settings)


def write_tables(folder: Path, made: Tables) -> None:
    """Write tables and comparison.json into `folder`. Equal tables give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in [name for name in FILES if name in made.by_name]:
        write_text(folder / FILES[name], csv_text(made.by_name[name]), "table")
    with replacing(folder / TABLES, "table") as fresh:
        write_parts(fresh, {name: table for name, table in made.by_name.items() if name not in FILES})
    rest = {name: value for name, value in made._asdict().items() if name != "by_name"}
    text = json.dumps(_plain(rest), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(folder / COMPARISON, text, "table")


def write_parts(folder: Path, tables: Mapping[str, Any]) -> None:
    """Write tables as parquet; a name that ends in `.json` is such a file."""
    for name, table in tables.items():
        if name.endswith(".json"):
            write_text(folder / name, json.dumps(table, separators=(",", ":")), "table")
        else:
            write_parquet(table, folder / f"{name}.parquet")


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
    """Return metric → arm → mean, sd, n on the test split, for `dvc metrics`. Baselines are only in their manifest."""
    found: dict[str, dict[str, dict[str, float | int]]] = {}
    for row in comparison:
        if row.kind != "baseline":
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
