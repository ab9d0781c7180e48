"""Per-run data of a results page: the metrics of each run, and which test items it predicted correctly."""

import json
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from isoscope.base.errors import InputError
from isoscope.platform.outputs import Output, read_predictions
from isoscope.platform.runs.record import read
from isoscope.platform.runs.restored import read_metrics

COLUMNS = ("digest", "commit", "arm", "seed", "metric", "epoch", "step", "value")
SHOWN = ("validation/", "test/", "training/")
"""Metrics of a page: none of optimiser steps."""


def rows(output: Output, commit: str) -> list[tuple[object, ...]]:
    """Return a row per metric and epoch of a run, in `COLUMNS`; values have all digits."""
    run = output.run
    found = [
        (
            *(run.digest[:12], commit[:7], run.arm, run.seed, point["name"]),
            *("" if point.get("epoch") is None else point["epoch"], point["step"], repr(point["value"])),
        )
        for point in read_metrics(output.folder)
        if point["name"].startswith(SHOWN)
    ]
    return sorted(found, key=lambda row: (row[4], row[6]))


def commit_of(records: Path, digest: str) -> str:
    """Return the commit in a run's record. Raises `InputError` without it."""
    file = records / f"{digest}.jsonl"
    author = read(file).author if file.is_file() else None
    if author is None:
        raise InputError(f"{digest[:12]}: no record names its attempt; run this where the run was trained")
    return str(author.git["commit"])


def baselines(manifest: Path) -> list[tuple[object, ...]]:
    """Return a row per classifier that is a baseline of a task and metric of the test split, in `COLUMNS`.

    They have neither digest nor seed. Language models that are baselines of a text task have no score to compare.
    """
    known = json.loads(manifest.read_text("utf-8")).get("baselines", {})
    return [
        ("", "", name, "", f"test/{metric}", "", "", repr(value))
        for name, splits in known.items()
        if "n" in splits["test"]
        for metric, value in splits["test"].items()
        if metric != "n"
    ]


def of_runs(outputs: Iterable[Output], records: Path, manifest: Path) -> pd.DataFrame:
    """Return the metrics of runs of a task, and of its baselines, in `COLUMNS`."""
    found = [row for output in outputs for row in rows(output, commit_of(records, output.run.digest))]
    found += baselines(manifest)
    return pd.DataFrame(found, columns=COLUMNS, dtype=str).astype({"value": float})


def correct_items(outputs: Iterable[Output]) -> pd.DataFrame:
    """Return a row per test item and a column `<arm>/<seed>` per classifier: whether its prediction was correct."""
    found = {}
    for output in (one for one in outputs if one.objective == "classification"):
        predictions = read_predictions(output)
        found[f"{output.run.arm}/{output.run.seed}"] = predictions["label"] == predictions["predicted"]
    return pd.DataFrame(found)
