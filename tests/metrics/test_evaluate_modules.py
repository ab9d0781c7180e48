"""The scores load through the library `evaluate`, offline; further modules of `evaluate` load by path.

The block of docs/huggingface.md does what two tests here do.
"""

import subprocess
import sys
from pathlib import Path

import datasets
import numpy as np
import pytest
import sacrebleu
from scipy import stats
from sklearn import metrics as peer
from transformers import pipeline

from evaluate_material import OWN, classifier
from isoscope import metrics
from isoscope.base.errors import InputError
from isoscope.metrics.further import FurtherMetrics
from isoscope.metrics.matrix_scores import SCORES, confusion_matrix
from probe_material import pieces, sentences

evaluate = pytest.importorskip("evaluate")
FOLDER = Path(metrics.__file__).parent


@pytest.mark.parametrize("classes", [2, 4])
def test_loaded_by_path_it_gives_what_training_logs(classes: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(classes)
    references, predictions = rng.integers(0, classes, size=(2, 60))
    module = evaluate.load(str(FOLDER / "classification_scores.py"), cache_dir=str(tmp_path), keep_in_memory=True)
    expected = {name: score(confusion_matrix(references, predictions, classes)) for name, score in SCORES.items()}
    assert module.compute(predictions=predictions, references=references) == pytest.approx(expected)


def test_it_can_be_fed_batch_by_batch_and_combined(tmp_path: Path) -> None:
    from isoscope.metrics.classification_scores import ClassificationScores

    whole = ClassificationScores(cache_dir=str(tmp_path), keep_in_memory=True)
    parts = ClassificationScores(cache_dir=str(tmp_path), keep_in_memory=True, experiment_id="parts")
    references, predictions = [0, 1, 1, 0, 1, 1], [0, 1, 0, 0, 1, 0]
    for start in (0, 2, 4):
        parts.add_batch(predictions=predictions[start : start + 2], references=references[start : start + 2])
    assert parts.compute() == whole.compute(predictions=predictions, references=references)


@pytest.mark.parametrize("words", ["13a", "char"])
def test_translations_have_the_scores_of_sacrebleu(words: str, tmp_path: Path) -> None:
    sources = ["Ein Hund läuft.", "Zwei Katzen schlafen.", "OK"]
    translations = ["A dog is running in the park.", "Two cats sleep on a bed.", "OK"]
    references = ["A dog runs in the park.", "Two cats are sleeping on a bed.", "Okay"]
    module = evaluate.load(str(FOLDER / "translation_metric.py"), cache_dir=str(tmp_path), keep_in_memory=True)
    texts = {"predictions": translations, "references": references, "sources": sources}
    found = module.compute(**texts, tokenize=words)
    assert found["bleu"] == pytest.approx(sacrebleu.corpus_bleu(translations, [references], tokenize=words).score)
    assert found["chrf"] == pytest.approx(sacrebleu.corpus_chrf(translations, [references]).score)
    assert found["copied"] == pytest.approx(1 / 3)
    assert f"tok:{words}" in found["signature"]


def test_regression_has_the_scores_of_scipy() -> None:
    references, predictions = np.random.default_rng(0).normal(size=(2, 50)).round(1)  # with ties
    module = evaluate.load(str(FOLDER / "regression_metric.py"), keep_in_memory=True)
    assert module.compute(predictions=predictions, references=references) == pytest.approx(
        {
            "spearman": stats.spearmanr(references, predictions).statistic,
            "pearson": stats.pearsonr(references, predictions).statistic,
            "rmse": peer.root_mean_squared_error(references, predictions),
            "mae": peer.mean_absolute_error(references, predictions),
        }
    )


def test_label_sets_have_the_scores_of_scikit_learn() -> None:
    references, predictions = np.random.default_rng(0).integers(0, 2, size=(2, 50, 4))
    module = evaluate.load(str(FOLDER / "multilabel_metric.py"), keep_in_memory=True)
    found = module.compute(predictions=predictions.tolist(), references=references.tolist())
    assert found == pytest.approx(
        {
            "micro_f1": peer.f1_score(references, predictions, average="micro"),
            "macro_f1": peer.f1_score(references, predictions, average="macro"),
            "subset_accuracy": peer.accuracy_score(references, predictions),
            "cardinality": predictions.sum(1).mean(),
        }
    )


def test_modules_are_combined_with_a_users_own(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    both = evaluate.combine([str(FOLDER / "classification_scores.py"), str(tmp_path / "own.py")])
    found = both.compute(predictions=[0, 1, 1, 0], references=[0, 1, 0, 0])
    assert (found["right"], found["f1"]) == (3, pytest.approx(2 / 3))
    assert [found[name] for name in ("classification_scores_accuracy", "own_accuracy")] == [0.75, 0.75]


def test_an_evaluator_scores_a_pipeline(tmp_path: Path) -> None:
    classifier(0).save_pretrained(tmp_path)
    pieces(tmp_path)
    piped, rows = pipeline("text-classification", str(tmp_path)), datasets.Dataset(sentences())
    module = evaluate.load(str(FOLDER / "classification_scores.py"), keep_in_memory=True)
    # evaluate 0.4.6 builds the pipeline of a folder or a model; with a finished pipeline it asks transformers for
    # classes of TensorFlow, which version 5 no longer has.
    for given in (str(tmp_path), piped.model):
        found = evaluate.evaluator("text-classification").compute(
            given,
            rows,
            metric=module,
            tokenizer=piped.tokenizer,
            input_column="sentence",
            label_mapping={"LABEL_0": 0, "LABEL_1": 1},
        )
    predicted = [int(one["label"][-1]) for one in piped(rows["sentence"][:])]
    assert found["accuracy"] == pytest.approx(peer.accuracy_score(rows["label"][:], predicted))
    assert found["matthews"] == pytest.approx(peer.matthews_corrcoef(rows["label"][:], predicted))


def test_the_modules_need_no_platform() -> None:
    names = [path.stem for path in sorted(FOLDER.glob("*.py")) if "(evaluate.Metric)" in path.read_text("utf-8")]
    assert names == ["classification_scores", "multilabel_metric", "regression_metric", "translation_metric"]
    load = f"import evaluate; [evaluate.load(f'{FOLDER}/{{name}}.py') for name in {names}]"
    script = f"{load}; import sys; print([one for one in sys.modules if one.startswith('isoscope.platform')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_numbers_of_further_modules_keep_their_names_unless_they_are_taken(tmp_path: Path) -> None:
    for name in ("own", "other"):
        (tmp_path / f"{name}.py").write_text(OWN)
    paths = [str(tmp_path / "own.py"), str(tmp_path / "other.py")]
    found = FurtherMetrics(paths, key="--metric", taken={"accuracy"})([0, 1, 1], [0, 1, 0])
    assert found == pytest.approx({"right": 2, "own_accuracy": 2 / 3, "other_right": 2, "other_accuracy": 2 / 3})


def test_a_module_that_cannot_score_is_refused_in_one_line(tmp_path: Path) -> None:
    for name, code, said in (
        ("broken", "1 +", "not a module of evaluate: SyntaxError"),
        ("fails", OWN.replace("return {", "raise ValueError('no\\nno')\n        return {"), "ValueError: no no"),
        (
            "lists",
            OWN.replace('"right": right, "accuracy": right / len(references), ', ""),
            r"returns \{'each': \[1, 1\]\}; give",
        ),
        ("exits", OWN.replace("return {", "raise SystemExit(0)\n        return {"), "cannot score these predictions: "),
        (
            "bare",
            OWN.replace("return {", "return 0.5\n        return {"),
            "returns 0.5; give a metric that returns num",
        ),
    ):
        (tmp_path / f"{name}.py").write_text(code)
        with pytest.raises(InputError, match=said) as caught:
            FurtherMetrics([str(tmp_path / f"{name}.py")], key="--metric", taken=())([0, 1], [1, 1])
        assert "\n" not in str(caught.value)
    whole = FurtherMetrics([str(FOLDER / "classification_scores.py")], key="--metric", taken=())
    with pytest.raises(InputError, match="takes whole numbers, and these predictions are none"):
        whole([0.0, 1.0], [0.2, 0.9])
    assert whole([0.0, 1.0], [0.0, 1.0])["accuracy"] == 1
