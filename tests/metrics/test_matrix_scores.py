"""Scores against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from isoscope.metrics.matrix_scores import SCORES, confusion_matrix


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_agree_with_scikit_learn(classes: int) -> None:
    rng = np.random.default_rng(classes)
    for _ in range(20):
        label, predicted = rng.integers(0, classes, size=(2, 50))
        counts = confusion_matrix(label, predicted, classes)
        average = "binary" if classes == 2 else "macro"
        every = None if classes == 2 else list(range(classes))
        peers = {
            "accuracy": accuracy_score(label, predicted),
            "f1": f1_score(label, predicted, average=average, labels=every, zero_division=0.0),
            "matthews": matthews_corrcoef(label, predicted),
        }
        assert {name: score(counts) for name, score in SCORES.items()} == pytest.approx(peers)


def test_a_constant_prediction_has_no_correlation() -> None:
    label = np.array([0, 1, 1, 0])
    assert SCORES["matthews"](confusion_matrix(label, np.ones(4), 2)) == 0.0
    assert SCORES["matthews"](confusion_matrix(label, label, 2)) == 1.0


def test_an_index_outside_the_classes_is_refused() -> None:
    with pytest.raises(ValueError, match="outside 0 … 1"):
        confusion_matrix([0, 1], [0, 2], 2)
