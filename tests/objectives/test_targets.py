"""Objectives with a target per text: a score, several labels, classes of unequal size."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from tests.training_runs import (
    WORDS,
    Killed,
    attributes,
    completed,
    equal,
    files,
    kill_in,
    logged,
    make_loop,
    texts,
    weights,
)
from torch.nn import functional as F
from transformers import AutoModelForSequenceClassification

from isoscope.base import built_in
from isoscope.base.errors import InputError
from isoscope.data import tokens
from isoscope.objectives import Task, classification, multilabel, regression
from isoscope.platform.config.declared import with_target
from probe_material import gpt2, save
from refused import refused

RUN: dict[str, Any] = {"epochs": 16, "rows": 400, "dropout": 0.0, "learning_rate": 5e-3, "keep": "best"}


def words(rows: int, seed: int) -> list[list[str]]:
    draw = np.random.default_rng(seed)
    return [list(draw.choice(WORDS, draw.integers(2, 7))) for _ in range(rows)]


def scored(rows: int, seed: int) -> pa.Table:
    """Each 'good' of a sentence adds 1 to its score, each 'bad' takes 1."""
    texts = words(rows, seed)
    score = [3.0 + one.count("good") - one.count("bad") for one in texts]
    return pa.table({"sentence": [" ".join(one) for one in texts], "score": score})


def thirds(rows: int, seed: int) -> pa.Table:
    """Scores that single precision rounds."""
    table = scored(rows, seed)
    return table.set_column(1, "score", pa.array(table["score"].to_numpy() / 3))


def labelled(rows: int, seed: int) -> pa.Table:
    """Labels 0, 1 and 2 are whether a sentence has 'good', 'bad' and 'film'."""
    texts = words(rows, seed)
    labels = [[k for k, word in enumerate(("good", "bad", "film")) if word in one] for one in texts]
    return pa.table({"sentence": [" ".join(one) for one in texts], "labels": pa.array(labels, pa.list_(pa.int64()))})


def _named(task: Task) -> multilabel.Multilabel:
    task.manifest["labels"][:] = ["good", "bad", "film"]  # type: ignore[index]
    return multilabel.objective(task)


REGRESSION: dict[str, Any] = RUN | {"make": regression.objective, "table": scored, "select": "spearman"}
MULTILABEL: dict[str, Any] = RUN | {"make": _named, "table": labelled, "select": "micro_f1"}


def _of_predictions(loop: Any, kind: str) -> Any:
    return built_in.load(built_in.METRICS, kind).by_item(pd.read_parquet(loop.work / "predictions.parquet"))


def test_a_regression_learns_a_planted_score_and_its_file_gives_its_metrics(tmp_path: Path) -> None:
    loop = completed(tmp_path, **REGRESSION)
    assert logged(loop, "test/spearman")[0] > 0.9
    assert logged(loop, "validation/spearman")[0] < 0.7  # before training
    for name, one in _of_predictions(loop, "regression").items():
        assert one.score == pytest.approx(logged(loop, f"test/{name}")[0], abs=1e-6)


def test_metrics_and_the_file_of_a_regression_are_of_the_scores_as_they_are(tmp_path: Path) -> None:
    """Not of their values in single precision."""
    loop = completed(tmp_path, **REGRESSION | {"table": thirds, "epochs": 1})
    true = pd.read_parquet(loop.work / "predictions.parquet")["score"].to_numpy()
    assert (true != true.astype(np.float32)).any()
    assert {*true} <= {number / 3 for number in range(-9, 19)}
    for name, one in _of_predictions(loop, "regression").items():
        assert one.score == pytest.approx(logged(loop, f"test/{name}")[0], abs=1e-6)


def test_a_regression_starts_from_the_mean_score(tmp_path: Path) -> None:
    for family in ("bert", "roberta"):
        loop = make_loop(tmp_path / family, family=family, **REGRESSION)
        head = getattr(loop.raw_model.classifier, "out_proj", loop.raw_model.classifier)
        assert float(head.bias.detach()) == pytest.approx(loop.objective.splits["train"].labels.mean())


def test_a_regression_that_goes_on_keeps_its_starts_head(tmp_path: Path) -> None:
    """Also its bias, which is not the mean of train any more."""
    kept, model = (completed(tmp_path / "start", **REGRESSION).work / "checkpoints").glob("*"), {"kind": "run"}
    (checkpoint,) = kept
    built = make_loop(tmp_path / "on", **REGRESSION).objective.build(
        {"encoder": model, "fusion": {"kind": "additive"}}, checkpoint
    )
    start = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    for name, value in start.state_dict().items():
        assert torch.equal(built.state_dict()[name], value), name


def test_several_labels_are_learned_and_the_threshold_is_of_validation(tmp_path: Path) -> None:
    loop = completed(tmp_path, **MULTILABEL)
    (checkpoint,) = (loop.work / "checkpoints").iterdir()
    kept = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    assert kept.config.problem_type == "multi_label_classification"
    assert kept.config.id2label == {0: "good", 1: "bad", 2: "film"}
    assert kept.config.threshold == loop.raw_model.config.threshold
    found = _of_predictions(loop, "multilabel")
    assert found["micro_f1"].score > found["micro_f1"].constant + 0.2
    for name, one in found.items():
        assert one.score == pytest.approx(logged(loop, f"test/{name}")[0], abs=1e-6)
    table = pd.read_parquet(loop.work / "predictions.parquet")
    assert ((table["probability_0"] > kept.config.threshold) == table["predicted_0"]).all()


def test_labels_of_the_test_split_do_not_move_the_threshold(tmp_path: Path) -> None:
    def other_test(rows: int, seed: int) -> pa.Table:
        table = labelled(rows, seed)
        none = pa.array([[]] * rows, pa.list_(pa.int64()))
        return table.set_column(1, "labels", none) if seed == 3 else table

    one = completed(tmp_path / "one", **MULTILABEL)
    two = completed(tmp_path / "two", **MULTILABEL | {"table": other_test})
    assert one.raw_model.config.threshold == two.raw_model.config.threshold
    assert logged(one, "test/micro_f1") != logged(two, "test/micro_f1")


@pytest.mark.parametrize("kind", ["regression", "multilabel"])
def test_a_killed_run_resumes_to_the_same_bytes(tmp_path: Path, kind: str) -> None:
    settings = (REGRESSION if kind == "regression" else MULTILABEL) | {"epochs": 3, "rows": 60}
    settings["snapshots"] = {"steps": 1, "epochs": False}  # a snapshot's configuration has the threshold
    whole = completed(tmp_path / "whole", **settings)
    with pytest.raises(Killed):
        completed(tmp_path / "killed", stop=kill_in(13), **settings)
    completed(tmp_path / "killed", **settings)
    assert files(tmp_path / "killed" / "work") == files(whole.work)


def test_an_empty_text_without_any_token_is_named(tmp_path: Path) -> None:
    """A tokenizer that puts no tokens of its own around a text, such as GPT-2's."""

    def table(rows: int, seed: int) -> pa.Table:
        found = texts(rows, seed)["sentence"].to_pylist()
        return pa.table({"sentence": [*found[:5], "", *found[6:]], "label": [0, 1] * (rows // 2)})

    save(tmp_path / "models", gpt2=gpt2())
    bare = tokens.load(tmp_path / "models/gpt2").backend
    bare.post_processor = None  # type: ignore[assignment]
    bare.save(str(tmp_path / "models/gpt2/tokenizer.json"))
    with pytest.raises(InputError, match=r"train\.parquet, row 6: the text is empty, .* \(1 of 44 rows\)"):
        make_loop(tmp_path, published=tmp_path / "models/gpt2", fusion={"kind": "native"}, table=table)


def unequal(rows: int, seed: int) -> pa.Table:
    """One sentence in eight, drawn at random, is of class 1, whatever its words."""
    draw = np.random.default_rng(seed)
    label = (np.arange(rows) % 8 == 0).astype(int)
    return pa.table({"sentence": [" ".join(draw.choice(WORDS, 4)) for _ in range(rows)], "label": label})


def test_balanced_weights_are_scikit_learns_and_change_the_loss_of_a_class_only(tmp_path: Path) -> None:
    from sklearn.utils.class_weight import compute_class_weight

    settings: dict[str, Any] = {"table": unequal, "rows": 80, "dropout": 0.0}
    plain = make_loop(tmp_path / "plain", **settings)
    loop = make_loop(
        tmp_path / "balanced", make=partial(classification.objective, class_weights="balanced"), **settings
    )
    labels = loop.objective.splits["train"].labels
    peer = compute_class_weight("balanced", classes=np.array([0, 1]), y=labels)
    np.testing.assert_allclose(loop.objective.class_weights, peer, rtol=1e-6)
    logits, targets = torch.tensor([[0.3, -0.2], [0.1, 0.7]]), torch.tensor([0, 1])
    each = F.cross_entropy(logits, targets, reduction="none")
    assert float(loop.objective.loss(logits, targets)) == pytest.approx(float((each * torch.tensor(peer)).sum()))
    assert float(plain.objective.loss(logits, targets)) == pytest.approx(float(each.sum()))


def test_balanced_weights_lift_what_is_predicted_of_a_rare_class(tmp_path: Path) -> None:
    settings: dict[str, Any] = RUN | {"table": unequal, "epochs": 2, "select": "loss"}
    make = partial(classification.objective, class_weights="balanced")
    plain, lifted = completed(tmp_path / "plain", **settings), completed(tmp_path / "lifted", make=make, **settings)
    shares = []
    for loop in (plain, lifted):
        table = pd.read_parquet(loop.work / "predictions.parquet")
        shares.append(np.exp(table["logit_1"] - np.logaddexp(table["logit_0"], table["logit_1"])).mean())
    assert shares[0] == pytest.approx(1 / 8, abs=0.08)
    assert shares[1] == pytest.approx(1 / 2, abs=0.15)


def test_what_is_said_of_the_options_of_an_objective_is_what_its_factory_takes() -> None:
    from isoscope.base.registry import OBJECTIVES

    assert {entry.name for entry in with_target()} == {"classification", "regression", "multilabel"}
    for entry in with_target():
        of_factory = OBJECTIVES[entry.name].options
        assert [*entry.options] == [*of_factory]
        assert [one.default for one in entry.options.values()] == [one.default for one in of_factory.values()]


def test_equal_weights_without_classes_of_unequal_size(tmp_path: Path) -> None:
    """With classes of equal size, balanced weights are 1: training has the same bits."""

    def even(rows: int, seed: int) -> pa.Table:
        return pa.table({"sentence": [" ".join(one) for one in words(rows, seed)], "label": np.arange(rows) % 2})

    make = partial(classification.objective, class_weights="balanced")
    one = completed(tmp_path / "one", table=even, rows=40)
    two = completed(tmp_path / "two", table=even, rows=40, make=make)
    assert equal(weights(one), weights(two))
    assert attributes({"kind": "none"}).kind == "none"


def test_a_run_goes_on_with_the_fusion_the_tokenizer_and_the_head_of_its_start(tmp_path: Path) -> None:
    start = completed(tmp_path / "start", epochs=1)
    (kept,) = (start.work / "checkpoints").iterdir()
    objective, model = make_loop(tmp_path / "next", seed=1).objective, {"encoder": {"kind": "run"}}
    built = objective.build(model | {"fusion": {"kind": "additive"}}, kept)
    assert equal(weights(start), dict(built.named_parameters()))
    with refused("model.fusion: {'kind': 'native'}, but the model to start from has {'kind': 'additive'}; set it"):
        objective.build(model | {"fusion": {"kind": "native"}}, kept)
    file = kept / "tokenizer.json"
    file.write_text(file.read_text("utf-8").replace('"film"', '"movie"'), "utf-8")
    with refused(".*: its tokenizer is not that of the task"):
        objective.build(model | {"fusion": {"kind": "additive"}}, kept)
