"""The scores load through the library `evaluate`, offline."""

from pathlib import Path

import numpy as np
import pytest
import sacrebleu

from isoscope import metrics
from isoscope.metrics.matrix_scores import SCORES, confusion_matrix

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
