"""Each item's contribution to a score, against leaving it out by hand and against fresh samples."""

import numpy as np
import pytest

from isoscope.metrics.matrix_scores import SCORES, confusion_matrix
from isoscope.statistics.jackknife import pseudo_values


def test_share_in_the_accuracy_is_right_or_wrong() -> None:
    label, predicted = np.array([0, 1, 1, 0, 1]), np.array([0, 1, 0, 0, 0])
    np.testing.assert_allclose(pseudo_values(SCORES["accuracy"], label, predicted, 2), [1, 1, 0, 1, 0], atol=1e-12)


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
