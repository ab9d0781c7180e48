"""Confusion counts add up and name their classes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import confusion_matrix

from finished_runs import labels_of, write_run
from isoscope.errors import InputError
from isoscope.outputs import read_output, read_predictions
from isoscope.studies import classified

CLASSES = ("negative", "neutral", "positive")


def confusion(folders: Sequence[Path]) -> pd.DataFrame:
    return classified.confusion([read_output(folder) for folder in folders])


def test_counts_agree_with_scikit_learn(tmp_path: Path) -> None:
    folders = [write_run(tmp_path, "fft", seed, labels=CLASSES, items=91) for seed in (0, 1)]
    table = confusion(folders)
    for folder, (_, rows) in zip(folders, table.groupby("seed"), strict=True):
        predictions = read_predictions(read_output(folder))
        expected = confusion_matrix(predictions["label"], predictions["predicted"])
        found = rows.pivot_table(index="actual", columns="predicted", values="count").loc[list(CLASSES), list(CLASSES)]
        np.testing.assert_array_equal(found.to_numpy(), expected)
    assert table.groupby("seed")["count"].sum().tolist() == [91, 91]


def test_an_empty_cell_is_a_zero(tmp_path: Path) -> None:
    right = np.ones(60, dtype=bool)
    table = confusion([write_run(tmp_path, "fft", 0, labels=CLASSES, items=60, right=right)])
    assert len(table) == 9
    assert table.query("actual == predicted")["count"].tolist() == np.bincount(labels_of(60, 3)).tolist()
    assert table.query("actual != predicted")["count"].tolist() == [0] * 6


def test_runs_of_one_study_share_their_classes(tmp_path: Path) -> None:
    folders = [write_run(tmp_path, arm, 0, labels=(arm, "other")) for arm in ("a", "b")]
    with pytest.raises(InputError, match="its classes are"):
        confusion(folders)


def test_predictions_of_another_form_are_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "fft", 0)
    (folder / "predictions.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match=r"predictions\.parquet: cannot be read as predictions"):
        confusion([folder])


def test_no_runs_no_rows() -> None:
    assert confusion([]).empty
