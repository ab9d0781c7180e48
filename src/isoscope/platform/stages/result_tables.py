"""Per-run data of a results page: the metrics of each run, and what it predicted for each test item."""

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pandas as pd

from isoscope.base.errors import InputError
from isoscope.base.paths import FIGURES
from isoscope.platform.config.declared import declares
from isoscope.platform.figures import csv_text, origin, pictures, style, table_text
from isoscope.platform.outputs import Output, read_predictions
from isoscope.platform.results.study_tables import read_tables
from isoscope.platform.runs.output_files import read_metrics
from isoscope.platform.runs.record import read, working_seconds

COLUMNS = ["digest", "commit", "arm", "seed", "metric", "epoch", "step", "value"]
SHOWN = ("validation/", "test/", "training/", "baseline/", "posthoc/")
"""Metrics of a page: none of optimiser steps."""


def write_table(table: pd.DataFrame, place: Path, form: str) -> Path:
    """Write a table to `place` with the ending of its format; a long table as CSV. Return the file."""
    made = {"latex": (".tex", table_text.latex), "markdown": (".md", table_text.markdown)}
    ending, text = made.get(
        form if len(table) <= table_text.MOST_ROWS else "", (".csv", lambda rows, _: csv_text.csv_text(rows))
    )
    (file := place.with_name(place.name + ending)).write_text(text(table, place.name.replace("_", " ")), "utf-8")
    return file


def write_figures(folder: Path, kind: str, to: Path, form: str | None) -> list[Path]:
    """Write the figures of a study or comparison in a format to the folder `to`, with their origin; return the files.

    `folder`: where its stage drew them; those figures name the runs. Raises `InputError` if a figure there has no
    origin, or other rows.
    """
    written: list[Path] = []
    if form is None:
        return written
    try:
        drawn = pictures.as_drawn(pictures.views_of(kind), read_tables(folder).by_name, folder / FIGURES)
    except FileNotFoundError as error:
        raise InputError(f"{error.filename}: no such file; run: isoscope repro") from None
    except ValueError as error:
        raise InputError(f"{error}; run: isoscope repro") from None
    for one, _, file in drawn:
        if file is None:
            continue
        content = file.read_bytes()
        (known,) = origin.origins(content)
        written.append(to / f"{one.name}.{form}")
        written[-1].write_bytes(
            content
            if form == "svg"
            else one.written(partial(style.to_pdf, subject=known.text))
            if form == "pdf"
            else one.written(partial(style.to_png, metadata={"Source": known.text}))
        )
    return written


def of_run(output: Output, commit: str, seconds: float | None) -> pd.DataFrame:
    """Return a row per metric and epoch of a run, and one for its time; values have all digits."""
    points = pd.DataFrame(read_metrics(output.folder), dtype=object).rename(columns={"name": "metric"})
    points = points[points["metric"].str.startswith(SHOWN)].sort_values(["metric", "step"], kind="stable")
    time = pd.DataFrame({"metric": ["training/seconds"], "value": [seconds]}, dtype=object)
    run = output.run
    return pd.concat([points, time]).assign(digest=run.digest[:12], commit=commit[:7], arm=run.arm, seed=run.seed)


def recorded(records: Path, digest: str) -> tuple[str, float | None]:
    """Return the commit in a run's record, and for how many seconds it worked. Raises `InputError` without a commit."""
    file = records / f"{digest}.jsonl"
    record = read(file) if file.is_file() else None
    if record is None or record.author is None:
        raise InputError(f"{digest[:12]}: no record names its attempt; run this where the run was trained")
    return str(record.author.git["commit"]), working_seconds(record)


def baselines(manifest: Path) -> pd.DataFrame:
    """Return a row per classifier that is a baseline of a task and metric of the test split.

    They have neither digest nor seed. Language models that are baselines of a text task have no score to compare.
    """
    known = json.loads(manifest.read_text("utf-8")).get("baselines", {})
    of_test = {name: splits["test"] for name, splits in known.items() if "n" in splits["test"]}
    rows = [(name, f"test/{metric}", value) for name, test in of_test.items() for metric, value in test.items()]
    return pd.DataFrame([row for row in rows if row[1] != "test/n"], columns=["arm", "metric", "value"], dtype=object)


def of_runs(outputs: Iterable[Output], records: Path, manifest: Path) -> pd.DataFrame:
    """Return the metrics of runs of a task, and of its baselines, in `COLUMNS`."""
    found = [of_run(output, *recorded(records, output.run.digest)) for output in outputs]
    table = pd.concat([*found, baselines(manifest)], ignore_index=True).reindex(columns=COLUMNS)
    return table.astype({"seed": "Int64", "epoch": "Int64", "step": "Int64", "value": float})


def predicted_items(outputs: Iterable[Output]) -> pd.DataFrame:
    """Return a row per test item: its class (`label`) or `score`, and what each run predicted, `<arm>/<seed>`."""
    found: dict[str, pd.Series] = {}
    for output in outputs:
        if (target := declares(output.objective, "TARGET")) in ("label", "score"):
            predictions = read_predictions(output)
            found |= {target: predictions[target], f"{output.run.arm}/{output.run.seed}": predictions["predicted"]}
    return pd.DataFrame(found)
