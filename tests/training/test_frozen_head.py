"""The baseline of a frozen encoder with a linear head: that of transformers with scikit-learn, and no part of a run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, f1_score, log_loss, matthews_corrcoef, mean_squared_error
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from transformers import AutoTokenizer, BertConfig, BertModel

from isoscope.base.errors import InputError
from isoscope.data.batches import drawn_rows, shuffled
from isoscope.metrics.label_scores import best_threshold
from isoscope.objectives import Task, classification, multilabel, regression
from isoscope.training.observers.frozen_head import HELD_OUT, STRENGTHS
from language_material import masked_lm
from language_material import pairs as masked_pairs
from training_runs import WORDS, completed, equal, logged, make_loop, texts, weights

MOST = 150
NAMES = ("good", "bad", "film")
ON: dict[str, Any] = {"frozen_head": {"most": MOST}}


def pairs(rows: int, seed: int) -> pa.Table:
    """The score of a pair is how often 'good' is in the first sentence, less that of 'bad' in the second."""
    draw = np.random.default_rng(seed)
    one, other = ([[*draw.choice(WORDS, draw.integers(2, 5))] for _ in range(rows)] for _ in range(2))
    score = [float(a.count("good") - b.count("bad")) for a, b in zip(one, other, strict=True)]
    return pa.table({"sentence1": [*map(" ".join, one)], "sentence2": [*map(" ".join, other)], "score": score})


def labelled(rows: int, seed: int) -> pa.Table:
    """The labels of a sentence are those of `NAMES` that are in it."""
    sentences = texts(rows, seed)["sentence"].to_pylist()
    labels = [[k for k, name in enumerate(NAMES) if name in one.split()] for one in sentences]
    return pa.table({"sentence": sentences, "labels": pa.array(labels, pa.list_(pa.int64()))})


def several(task: Task) -> multilabel.Multilabel:
    return multilabel.objective(task._replace(manifest={**task.manifest, "labels": [*NAMES]}))


CASES: dict[str, dict[str, Any]] = {
    "label": {"make": classification.objective, "table": texts},
    "score": {"make": regression.objective, "table": pairs},
    "labels": {"make": several, "table": labelled},
}


def starting_from(checkpoint: Path, make: Callable[[Task], Any]) -> Callable[[Task], Any]:
    """An objective whose models start from a checkpoint."""

    def made(task: Task) -> Any:
        objective = make(task)
        build = objective.build
        objective.build = lambda model, _: build(model | {"encoder": {"kind": "pretrained"}}, checkpoint)
        return objective

    return made


def vectors(folder: Path, split: str, checkpoint: Path) -> np.ndarray:
    """Mean of the last states over a text's tokens, by transformers."""
    table = pq.read_table(folder / f"{split}.parquet")
    columns = [table[name].to_pylist() for name in table.column_names if name.startswith("sentence")]
    inputs = AutoTokenizer.from_pretrained(folder / "tokenizer")(*columns, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = BertModel.from_pretrained(checkpoint).eval()(**inputs).last_hidden_state
    mask = inputs["attention_mask"][..., None]
    return ((states * mask).sum(1) / mask.sum(1)).double().numpy()


def heads(target: str, n: int, strength: float) -> Any:
    c = 1 / (n * strength)
    if target == "score":
        return Ridge(alpha=1 / (2 * c))
    if target == "label":  # a softmax of two classes has two weights per dimension, w and −w, where scikit-learn has 2w
        return LogisticRegression(C=2 * c, max_iter=10_000, tol=1e-8)
    return OneVsRestClassifier(LogisticRegression(C=c / len(NAMES), max_iter=10_000, tol=1e-8))


def loss(target: str, head: Any, x: np.ndarray, true: np.ndarray) -> float:
    if target == "score":
        return float(mean_squared_error(true, head.predict(x)))
    chances = head.predict_proba(x)
    of_each = zip(true.T, chances.T, strict=True) if target == "labels" else [(true, chances)]
    return float(np.mean([log_loss(*one) for one in of_each]))


def by_hand(
    target: str, folder: Path, checkpoint: Path, true: dict[str, np.ndarray], rows: np.ndarray
) -> dict[str, float]:
    """The test scores of the frozen encoder with a linear head, by transformers and scikit-learn."""
    found = {split: vectors(folder, split, checkpoint) for split in true}
    points, known = found["train"][rows], true["train"][rows]
    order = shuffled(len(rows))
    held, rest = order[::HELD_OUT], np.delete(order, np.s_[::HELD_OUT])

    def fitted(strength: float, own: np.ndarray) -> tuple[StandardScaler, Any]:
        scaler = StandardScaler().fit(points[own])
        return scaler, heads(target, len(own), strength).fit(scaler.transform(points[own]), known[own])

    def missed(strength: float) -> float:
        scaler, head = fitted(strength, rest)
        return loss(target, head, scaler.transform(points[held]), known[held])

    scaler, head = fitted(min(STRENGTHS, key=missed), np.arange(len(rows)))
    x, y = scaler.transform(found["test"]), true["test"]
    scores = {"loss": loss(target, head, x, y)}
    if target == "labels":
        threshold = best_threshold(true["validation"], head.predict_proba(scaler.transform(found["validation"])))
        predicted = head.predict_proba(x) > threshold
        return scores | {"micro_f1": f1_score(y, predicted, average="micro", zero_division=0)}
    predicted = head.predict(x)
    if target == "score":
        return scores | {"spearman": spearmanr(y, predicted)[0], "pearson": pearsonr(y, predicted)[0]}
    named = {"accuracy": accuracy_score, "f1": f1_score, "matthews": matthews_corrcoef}
    return scores | {name: float(score(y, predicted)) for name, score in named.items()}


@pytest.mark.parametrize("target", CASES)
def test_it_is_the_head_of_scikit_learn_on_the_vectors_of_transformers(tmp_path: Path, target: str) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(0)
    encoder = BertModel(BertConfig(vocab_size=60, max_position_embeddings=16, initializer_range=0.5, **sizes))
    encoder.save_pretrained(tmp_path / "checkpoint")
    make = starting_from(tmp_path / "checkpoint", CASES[target]["make"])
    loop = completed(tmp_path, **CASES[target] | ON | {"make": make}, rows=200, epochs=1)
    true = {split: one.labels for split, one in loop.objective.splits.items()}
    wanted = by_hand(target, tmp_path, tmp_path / "checkpoint", true, drawn_rows(200, MOST))
    for name, value in wanted.items():
        assert logged(loop, f"baseline/frozen_head/{name}") == [pytest.approx(value, abs=1e-4)], name
    assert {name for name, *_ in loop.log.points if name.startswith("baseline/")} == {
        f"baseline/frozen_head/{one.name}" for one in loop.objective.metrics
    }


@pytest.mark.parametrize("target", CASES)
def test_training_is_bitwise_the_same_without_it(tmp_path: Path, target: str) -> None:
    on, off = (completed(tmp_path / str(len(own)), **CASES[target], **own, rows=60) for own in (ON, {}))
    assert equal(weights(on), weights(off))
    assert [one for one in on.log.points if not one[0].startswith(("baseline/", "speed/"))] == [
        one for one in off.log.points if not one[0].startswith("speed/")
    ]


def test_an_objective_without_a_target_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^training\.frozen_head: objective Masked has no target"):
        make_loop(tmp_path, make=masked_lm, table=masked_pairs, **ON)
