"""Results on the test split: confusion counts and baselines."""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import accuracy_score, balanced_accuracy_score, confusion_matrix, f1_score, matthews_corrcoef

from finished_runs import labels_of, write_run
from isoscope.base.errors import InputError
from isoscope.data import manifest
from isoscope.data.corpus import Corpus
from isoscope.platform.outputs import read_output, read_predictions
from isoscope.platform.results.paired_comparison import Result
from isoscope.studies.arms import scores_on_test
from isoscope.studies.arms.scores_on_test import baselines_of_runs, baselines_on_test
from refused import refused

CLASSES = ("negative", "neutral", "positive")


def confusion(folders: Sequence[Path]) -> pd.DataFrame:
    return scores_on_test.confusion([read_output(folder) for folder in folders])


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


def test_predictions_of_another_form_are_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "fft", 0)
    (folder / "predictions.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match=r"predictions\.parquet: cannot be read as predictions"):
        confusion([folder])


def corpus() -> Corpus:
    rng = np.random.default_rng(0)
    splits = {}
    for split, rows in {"train": 90, "validation": 30, "test": 40}.items():
        label = rng.choice(3, size=rows, p=[0.2, 0.5, 0.3])
        texts = [f"{'abc'[y]} {rng.integers(9)} {rng.integers(9)}" for y in label]
        splits[split] = pa.table({"sentence": texts, "label": label})
    return Corpus(splits, ("a", "b", "c"), "made here", "CC0-1.0", None, {})


def test_the_majority_class_is_that_of_train(tmp_path: Path) -> None:
    made = corpus()
    found = baselines_on_test(manifest.write(made, tmp_path))
    assert list(found) == ["majority class", "TF-IDF, unigrams", "TF-IDF, uni- and bigrams"]
    labels = {split: made.splits[split]["label"].to_numpy() for split in ("train", "test")}
    dummy = DummyClassifier().fit(labels["train"][:, None], labels["train"]).predict(labels["test"][:, None])
    assert found["majority class"] == pytest.approx(
        {
            "n": 40,
            "accuracy": accuracy_score(labels["test"], dummy),
            "f1": f1_score(labels["test"], dummy, average="macro", zero_division=0.0),
            "matthews": matthews_corrcoef(labels["test"], dummy),
            "balanced_accuracy": balanced_accuracy_score(labels["test"], dummy),
            "macro_f1": f1_score(labels["test"], dummy, average="macro", zero_division=0.0),
        },
        abs=1e-6,
    )
    assert found["TF-IDF, unigrams"]["accuracy"] > found["majority class"]["accuracy"]


def test_a_manifest_without_baselines_is_named() -> None:
    with pytest.raises(InputError, match=r"manifest\.json: 'baselines' is missing"):
        baselines_on_test({"labels": ["a", "b"]})


def test_a_baseline_of_runs_is_the_mean_over_the_seeds_of_the_reference_arm(tmp_path: Path) -> None:
    arms: dict[str, dict[int, Result]] = {}
    values = {("additive", 0): 0.7, ("additive", 1): 0.9, ("conv2d", 0): 0.1}
    for (arm, seed), value in values.items():
        folder = write_run(tmp_path, arm, seed)
        with (folder / "metrics.jsonl").open("a") as file:
            for name in ("baseline/frozen_head/accuracy", "baseline/mine/of/two"):
                file.write(json.dumps({"name": name, "value": value, "step": 0, "epoch": 0}) + "\n")
        arms.setdefault(arm, {})[seed] = Result(read_output(folder), {}, {}, np.arange(120), {})
    wanted = {"frozen encoder, linear head": {"n": 120, "accuracy": 0.8}, "mine": {"n": 120, "of/two": 0.8}}
    assert baselines_of_runs(arms) == {name: pytest.approx(one) for name, one in wanted.items()}
    assert baselines_of_runs({}) == {}


@pytest.mark.parametrize("loss, same", [(73.251989, True), (73.2521, False), (0.5, True)])
def test_a_score_is_as_exact_as_single_precision(tmp_path: Path, loss: float, same: bool) -> None:
    """A large loss is summed in single precision by the run, and in double by its predictions."""
    output: Any = SimpleNamespace(folder=tmp_path)
    with nullcontext() if same else refused("test/loss is 73.252100 in metrics.jsonl, but 73.251987 by predictions"):
        scores_on_test._check_score(output, "loss", loss, 73.251987 if loss > 1 else 0.5000009)
    with refused("test/loss is 0.500000 in metrics"):
        scores_on_test._check_score(output, "loss", 0.5, 0.500003)
