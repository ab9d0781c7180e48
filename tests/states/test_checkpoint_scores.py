"""Any checkpoint with a head, scored on a file: peers, closed forms of intervals, and what is refused."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from sklearn import metrics as peer
from transformers import (
    AutoModelForSequenceClassification,
    BertModel,
    BertTokenizerFast,
    GPT2Config,
    GPT2ForSequenceClassification,
    pipeline,
)

from evaluate_material import OWN, classifier
from isoscope.base.errors import InputError
from isoscope.states.asked import Made, evaluate
from probe_material import FIRST, SECOND, pieces, sentences


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints by what they predict, and files of texts."""
    folder = tmp_path_factory.mktemp("checkpoints")
    names = {"id2label": {0: "bad", 1: "fine", 2: "good"}, "label2id": {"bad": 0, "fine": 1, "good": 2}}
    models = {
        "classes": classifier(0, **names),
        "unnamed": classifier(1),
        "number": classifier(2, num_labels=1),
        "sets": classifier(3, **names, problem_type="multi_label_classification", threshold=0.3),
        "encoder": BertModel(classifier(4).config),
    }
    sizes = {"vocab_size": 200, "n_positions": 40, "n_embd": 16, "n_layer": 1, "n_head": 2}
    models["decoder"] = GPT2ForSequenceClassification(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)).eval()
    for name, model in models.items():
        model.save_pretrained(folder / name)
        pieces(folder / name)
    draw, texts = np.random.default_rng(0), sentences()["sentence"].to_pylist()
    table = pd.DataFrame({"text": texts, "class": draw.choice(["bad", "fine", "good"], len(texts))})
    table = table.assign(
        number=draw.integers(0, 2, len(texts)),
        score=draw.normal(size=len(texts)).round(3),
        several=["|".join(one) for one in np.where(draw.random((len(texts), 2)) < 0.5, ["bad", "good"], "fine")],
        other=draw.choice(SECOND, len(texts)),
    )
    table.to_csv(folder / "rows.csv", index=False)
    table.assign(several=table["several"].str.split("|")).to_parquet(folder / "rows.parquet")
    (folder / "own.py").write_text(OWN)
    return folder


def made(place: Path, *names: str, text: str = "rows.csv", **options: Any) -> Made:
    options = {"threads": 1, "column": "text", **options}
    return evaluate(text=place / text, **options).make([str(place / name) for name in names], place / "cache")


def scores(found: Made) -> dict[str, dict[str, float]]:
    (only,) = found.told[0]["scores"].values()
    return only


def outputs(place: Path, name: str, *texts: Sequence[str]) -> np.ndarray[Any, Any]:
    """The peer's outputs: transformers' own classes, a text at a time."""
    model = AutoModelForSequenceClassification.from_pretrained(place / name).eval()
    tokenizer = BertTokenizerFast.from_pretrained(place / name)
    options = {"return_tensors": "pt", "return_token_type_ids": name != "decoder"}  # GPT-2 would add their words
    with torch.inference_mode():
        each = [model(**tokenizer(*one, **options)).logits[0].numpy() for one in zip(*texts, strict=True)]
    return np.array(each, np.float64)


def test_a_length_that_is_no_number_is_one_line(place: Path) -> None:
    classifier(0).save_pretrained(place / "long")
    pieces(place / "long")
    (place / "long/tokenizer_config.json").write_text('{"model_max_length": "long"}')
    with pytest.raises(InputError, match=r"tokenizer_config\.json: model_max_length: expected a number above 2"):
        made(place, "long", labels="number")


@pytest.mark.parametrize("names", [("1.0", "2.0", "0.5"), (" pos", "neg ", "a"), ("1", "2", "3")])
def test_labels_are_those_that_the_model_names_however_they_are_written(place: Path, names: tuple[str, ...]) -> None:
    called = {"id2label": dict(enumerate(names)), "label2id": {name: number for number, name in enumerate(names)}}
    classifier(0, **called).save_pretrained(place / "named")
    pieces(place / "named")
    rows = pd.read_csv(place / "rows.csv")[["text"]]
    written = [f"{name}.0" if name.isdecimal() else name for name in names]
    rows.assign(label=[written[row % 3] for row in range(len(rows))]).to_csv(place / "named.csv", index=False)
    found = made(place, "named", text="named.csv", labels="label").tables["predictions"]
    assert found["label"].tolist() == [row % 3 for row in range(len(rows))]


def test_one_label_or_none_is_a_set_of_labels(place: Path) -> None:
    classifier(7, num_labels=1, problem_type="multi_label_classification", threshold=0.5).save_pretrained(place / "one")
    pieces(place / "one")
    given = pd.read_csv(place / "rows.csv")[["text"]].assign(several=[["LABEL_0"], []] * 16)
    given.to_json(place / "one.jsonl", orient="records", lines=True)
    found = made(place, "one", text="one.jsonl", labels="several").tables["predictions"]
    assert (found["predicted_0"] == (found["probability_0"] > 0.5)).all()
    assert found["label_0"].tolist() == [True, False] * 16


def test_a_classifier_has_the_scores_of_scikit_learn_and_the_predictions_of_a_pipeline(place: Path) -> None:
    found = made(place, "classes", labels="class")
    rows, predictions = pd.read_csv(place / "rows.csv"), found.tables["predictions"]
    piped = pipeline("text-classification", str(place / "classes"))
    names = np.array(["bad", "fine", "good"])
    predicted = [one["label"] for one in piped(rows["text"].tolist())]
    assert names[predictions["predicted"]].tolist() == predicted
    assert len({*predicted}) > 1, "a control: not one class for all"
    assert names[predictions["label"]].tolist() == rows["class"].tolist()
    logits = predictions[[f"logit_{number}" for number in range(3)]].to_numpy()
    assert logits == pytest.approx(outputs(place, "classes", rows["text"]), abs=1e-5)
    value = {name: one["value"] for name, one in scores(found).items()}
    assert value == pytest.approx(
        {
            "loss": peer.log_loss(rows["class"], torch.tensor(logits).softmax(1), labels=names),
            "accuracy": peer.accuracy_score(rows["class"], predicted),
            "f1": peer.f1_score(rows["class"], predicted, average="macro"),
            "matthews": peer.matthews_corrcoef(rows["class"], predicted),
            "balanced_accuracy": peer.balanced_accuracy_score(rows["class"], predicted),
            "macro_f1": peer.f1_score(rows["class"], predicted, average="macro"),
        }
    )
    right = (rows["class"] == predicted).to_numpy(float)
    ends = stats.t.interval(0.9, len(right) - 1, right.mean(), stats.sem(right))
    narrower = scores(made(place, "classes", labels="class", confidence=0.9))["accuracy"]
    assert (narrower["low"], narrower["high"]) == pytest.approx(ends)
    assert narrower["high"] - narrower["low"] < scores(found)["accuracy"]["high"] - scores(found)["accuracy"]["low"]


def test_pairs_and_a_decoder(place: Path) -> None:
    rows = pd.read_csv(place / "rows.csv")
    found = made(place, "classes", other_column="other", labels="class").tables["predictions"]
    pairs = outputs(place, "classes", rows["text"], rows["other"])
    assert found[["logit_0", "logit_1", "logit_2"]].to_numpy() == pytest.approx(pairs, abs=1e-5)
    alone = made(place, "classes", labels="class").tables["predictions"]
    assert np.abs(alone["logit_0"] - pairs[:, 0]).max() > 0.01, "a control: the second text counts"
    found = made(place, "decoder", labels="number").tables["predictions"]
    causal = outputs(place, "decoder", rows["text"])
    assert found[["logit_0", "logit_1"]].to_numpy() == pytest.approx(causal, abs=1e-5), "padding is not read"


def test_labels_without_names_are_numbers(place: Path) -> None:
    found = made(place, "unnamed", labels="number").tables["predictions"]
    assert found["label"].tolist() == pd.read_csv(place / "rows.csv")["number"].tolist()


def test_a_regression_has_the_scores_of_scipy(place: Path) -> None:
    found, rows = made(place, "number", score="score"), pd.read_csv(place / "rows.csv")
    predicted = outputs(place, "number", rows["text"])[:, 0]
    value = {name: one["value"] for name, one in scores(found).items()}
    assert value == pytest.approx(
        {
            "loss": peer.mean_squared_error(rows["score"], predicted),
            "spearman": stats.spearmanr(rows["score"], predicted).statistic,
            "pearson": stats.pearsonr(rows["score"], predicted).statistic,
            "rmse": peer.root_mean_squared_error(rows["score"], predicted),
            "mae": peer.mean_absolute_error(rows["score"], predicted),
        },
        rel=1e-4,
    )
    assert all(one["low"] < one["value"] < one["high"] for one in scores(found).values())


@pytest.mark.parametrize("form", ["rows.csv", "rows.parquet"])
def test_label_sets_have_the_scores_of_scikit_learn_at_the_threshold_of_the_model(place: Path, form: str) -> None:
    found = made(place, "sets", text=form, labels="several", separator="|" if form.endswith("csv") else None)
    rows = pd.read_csv(place / "rows.csv")
    true = np.array([[name in one.split("|") for name in ("bad", "fine", "good")] for one in rows["several"]])
    predicted = 1 / (1 + np.exp(-outputs(place, "sets", rows["text"]))) > 0.3
    own = found.tables["predictions"]
    assert own[[f"label_{number}" for number in range(3)]].to_numpy().tolist() == true.tolist()
    value = {name: one["value"] for name, one in scores(found).items()}
    assert value["micro_f1"] == pytest.approx(peer.f1_score(true, predicted, average="micro"))
    assert value["macro_f1"] == pytest.approx(peer.f1_score(true, predicted, average="macro", zero_division=0))
    assert value["subset_accuracy"] == pytest.approx(peer.accuracy_score(true, predicted))
    assert value["cardinality"] == pytest.approx(predicted.sum(1).mean())


def test_a_metric_by_path_stands_beside_ours_and_bounds_may_name_it(place: Path) -> None:
    own = str(place / "own.py")
    found = made(place, "classes", labels="class", metrics=(own,), at_least=("own_accuracy=0", "right=33"))
    numbers = scores(found)
    assert numbers["own_accuracy"]["value"] == numbers["accuracy"]["value"]
    assert numbers["right"] == {"value": 32 * numbers["accuracy"]["value"], "low": None, "high": None}
    assert "each" not in numbers
    assert found.told[2]
    (missed,) = found.told[0]["missed"]
    assert missed.startswith("missed: --at-least right=33: ")
    assert not made(place, "classes", labels="class", at_least=("accuracy=0",), at_most=("accuracy=1",)).told[2]
    assert made(place, "classes", labels="class", at_most=("accuracy=0",)).told[2]
    json.dumps(found.told[0])


@pytest.mark.parametrize("names, options, said", [
    (["classes"], {"labels": "number"}, "'0', '1' are no labels of checkpoint .*, which has 'bad', 'fine', 'good'"),
    (["classes"], {"score": "score"}, "predicts label; name their column by --labels"),
    (["number"], {"labels": "class"}, "predicts score; name their column by --score"),
    (["classes"], {}, "--labels, --score: name one column"),
    (["classes"], {"labels": "clas"}, "no column 'clas'"),
    (["classes"], {"labels": "class", "column": "texts"}, "no column 'texts'"),
    (["encoder"], {"labels": "number"}, "weights are missing: classifier"),
    (["classes", "number"], {"labels": "class"}, "predicts a label, .* predicts a score; score them apart"),
    (["classes"], {"labels": "class", "metrics": ("no-such-metric",)}, "--metric no-such-metric: cannot be had from"),
    (["classes"], {"labels": "class", "metrics": ("absent.py",)}, "--metric absent.py: no such file"),
    (["classes"], {"labels": "class", "at_least": ("accuracy",)}, "--at-least accuracy: expected a metric and"),
    (["classes"], {"labels": "class", "at_most": ("loss=nan",)}, "--at-most loss=nan: expected a metric and a number"),
    (["classes"], {"labels": "class", "other_column": "texts"}, r"no column 'texts' \(--other-column\)"),
    (["number"], {"score": "score", "separator": "|"}, "--separator .: splits the column of --labels"),
    (["classes"], {"labels": "class", "at_least": ("acc=1",)}, "acc=1: no such metric; expected loss, accuracy"),
    (["number"], {"score": "class"}, "row 1: column 'class' is '(bad|fine|good)'; expected a finite number"),
])  # fmt: skip
def test_what_cannot_be_scored_is_refused_in_one_line(
    place: Path, names: list[str], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said) as caught:
        made(place, *names, **options)
    assert "\n" not in str(caught.value)


def test_rows_without_a_target_are_refused(place: Path) -> None:
    (place / "gaps.csv").write_text("text,class\na,bad\nb,\n")
    with pytest.raises(InputError, match=r"gaps.csv, row 2: column 'class' is empty; fill it or drop the row"):
        made(place, "classes", text="gaps.csv", labels="class")


def test_a_text_may_have_no_labels(place: Path) -> None:
    rows = [f"{one} {other}" for one, other in zip(FIRST, SECOND, strict=True)]
    pd.DataFrame({"text": rows, "several": ["bad|good", "", "fine", "bad"]}).to_csv(place / "few.csv", index=False)
    found = made(place, "sets", text="few.csv", labels="several", separator="|").tables["predictions"]
    assert found[[f"label_{number}" for number in range(3)]].sum(axis=1).tolist() == [2, 0, 1, 1]
