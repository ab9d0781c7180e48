"""The baselines of a task, against scikit-learn's own dummy."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from isoscope.data import manifest
from isoscope.data.corpus import Corpus
from isoscope.errors import InputError
from isoscope.studies.classified import baselines_on_test


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
        }
    )
    assert found["TF-IDF, unigrams"]["accuracy"] > found["majority class"]["accuracy"]


def test_a_manifest_without_baselines_is_named() -> None:
    with pytest.raises(InputError, match=r"manifest\.json: 'splits' is missing"):
        baselines_on_test({})
