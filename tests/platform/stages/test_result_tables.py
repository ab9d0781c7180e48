"""Per-run data of a results page: which metrics runs.csv has, and what it takes from the record."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from finished_runs import write_metrics, write_run
from isoscope.base.errors import InputError
from isoscope.platform.outputs import PREDICTIONS, Output, read_output
from isoscope.platform.runs.provenance import Git
from isoscope.platform.runs.record import Record, read, working_seconds
from isoscope.platform.stages.result_tables import COLUMNS, of_runs, predicted_items

LOGGED = {
    "posthoc/untouched/a_1": 0.7,
    "posthoc/whitened/ridge_accuracy": 0.8,
    "test/accuracy": 0.9,
    "baseline/frozen_head/accuracy": 0.6,
    "training/best_epoch": 2.0,
}
LEFT_OUT = {"step/a_1": 0.5, "train/loss": 0.1}


@pytest.fixture
def run(tmp_path: Path) -> Output:
    folder = write_run(tmp_path / "models", "additive", 0)
    points = [{"name": name, "value": value, "step": 8, "epoch": 2} for name, value in (LOGGED | LEFT_OUT).items()]
    write_metrics(folder, points)
    return read_output(folder)


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    (file := tmp_path / "manifest.json").write_text("{}")
    return file


def record(folder: Path, run: Output) -> float | None:
    """Write a run's record; return its seconds of work."""
    with Record(folder / f"{run.run.digest}.jsonl") as own:
        own.run(digest=run.run.digest, stage="train", study="fusion", arm="additive", seed=0, task="order")
        own.attempt(git=Git("1" * 40), environment={})
        own.metric("train/loss", 0.1, step=8)
        own.end("FINISHED")
        return working_seconds(read(own.path))


def test_a_run_has_its_metrics_after_training_and_none_of_optimiser_steps(
    run: Output, manifest: Path, tmp_path: Path
) -> None:
    seconds = record(tmp_path, run)
    table = of_runs([run], tmp_path, manifest)
    assert [*table] == COLUMNS
    values = table.set_index("metric")["value"].to_dict()
    assert seconds is not None
    assert values == LOGGED | {"training/seconds": seconds}
    assert set(table["digest"]) == {run.run.digest[:12]}
    assert set(table["commit"]) == {"1111111"}
    assert table.loc[table["metric"] == "training/seconds", ["epoch", "step"]].isna().all(axis=None)


def test_predictions_have_the_class_of_each_item_and_a_column_for_each_run(tmp_path: Path) -> None:
    wrong = np.arange(20) % 4 == 0
    runs = [read_output(write_run(tmp_path, arm, 0, items=20, right=~wrong)) for arm in ("additive", "fft")]
    table = predicted_items(runs)
    assert [*table] == ["label", "additive/0", "fft/0"]
    assert ((table["fft/0"] != table["label"]) == wrong).all()


def test_predictions_of_scores_stand_beside_the_score(run: Output) -> None:
    known = pd.DataFrame({"row": [1, 0], "score": [0.5, 4.0], "predicted": [1.0, 3.5]})
    known.to_parquet(run.folder / PREDICTIONS)
    table = predicted_items([run._replace(objective="regression")])
    assert table.to_dict("list") == {"score": [4.0, 0.5], "additive/0": [3.5, 1.0]}


def test_a_run_without_a_record_is_one_line(run: Output, manifest: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no record names its attempt; run this where the run was trained"):
        of_runs([run], tmp_path, manifest)
