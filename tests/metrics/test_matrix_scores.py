"""Scores against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, matthews_corrcoef

from isoscope.metrics.matrix_scores import SCORES, confusion_matrix, pseudo_values


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
            "balanced_accuracy": balanced_accuracy_score(label, predicted),
            "macro_f1": f1_score(label, predicted, average="macro", labels=list(range(classes)), zero_division=0.0),
        }
        assert {name: score(counts) for name, score in SCORES.items()} == pytest.approx(peers)


def test_a_constant_prediction_has_no_correlation() -> None:
    label = np.array([0, 1, 1, 0])
    assert SCORES["matthews"](confusion_matrix(label, np.ones(4), 2)) == 0.0
    assert SCORES["matthews"](confusion_matrix(label, label, 2)) == 1.0


def test_an_index_outside_the_classes_is_refused() -> None:
    with pytest.raises(ValueError, match="outside 0 … 1"):
        confusion_matrix([0, 1], [0, 2], 2)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("classes", [2, 3])
def test_shares_are_those_of_leaving_items_out(name: str, classes: int) -> None:
    rng = np.random.default_rng(classes)
    label, predicted = rng.integers(0, classes, size=(2, 40))
    score = SCORES[name]
    pairs = np.stack([label, predicted])
    without = [score(confusion_matrix(*np.delete(pairs, item, axis=1), classes)) for item in range(len(label))]
    shares = pseudo_values(score, label, predicted, classes)
    np.testing.assert_allclose(shares - shares.mean(), -39 * (without - np.mean(without)), atol=1e-10)
    assert shares.mean() == pytest.approx(score(confusion_matrix(label, predicted, classes)))


@pytest.mark.parametrize("name", ["f1", "matthews"])
def test_spread_of_shares_is_the_spread_over_samples(name: str) -> None:
    """The standard error they give is the standard deviation of the score over fresh samples of items (within 5 %)."""
    rng = np.random.default_rng(0)
    items, cells = 400, np.array([[0.4, 0.15], [0.05, 0.4]])
    drawn = rng.choice(4, size=(2000, items), p=cells.ravel())
    values, errors = [], []
    for draw in drawn:
        shares = pseudo_values(SCORES[name], draw // 2, draw % 2, 2)
        values.append(shares.mean())
        errors.append(shares.std(ddof=1) / np.sqrt(items))
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.05)
