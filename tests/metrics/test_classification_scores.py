"""The scores load through the library `evaluate`, offline."""

from pathlib import Path

import numpy as np
import pytest

from isoscope import metrics
from isoscope.metrics.matrix_scores import SCORES, confusion_matrix

evaluate = pytest.importorskip("evaluate")
SCRIPT = Path(metrics.__file__).parent / "classification_scores.py"


@pytest.mark.parametrize("classes", [2, 4])
def test_loaded_by_path_it_gives_what_training_logs(classes: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(classes)
    references, predictions = rng.integers(0, classes, size=(2, 60))
    module = evaluate.load(str(SCRIPT), cache_dir=str(tmp_path), keep_in_memory=True)
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
