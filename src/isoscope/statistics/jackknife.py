"""Compute how much each test item contributes to a score."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isoscope.metrics.matrix_scores import Score, confusion_matrix


def pseudo_values(score: Score, label: ArrayLike, predicted: ArrayLike, classes: int) -> NDArray[np.float64]:
    """Jackknife pseudo-values `[N]` of a score: −(N − 1)·score(all but item i), shifted so that they average to it.

    For accuracy they are exactly 1 for a correct item and 0 for a wrong item. For other scores their spread is the
    first-order spread of the score over test items (Tukey 1958; Efron and Stein 1981). Items in one cell of the
    confusion matrix share one value, so at most C² scores are computed. Raises `ValueError` for fewer than two items.
    """
    label, predicted = np.asarray(label, dtype=np.int64), np.asarray(predicted, dtype=np.int64)
    counts, n = confusion_matrix(label, predicted, classes), len(label)
    if n < 2:
        raise ValueError(f"{n} items: leaving one out needs two")
    values = np.full((classes, classes), np.nan)
    for cell in zip(*np.nonzero(counts), strict=True):
        counts[cell] -= 1
        values[cell] = -(n - 1) * score(counts)
        counts[cell] += 1
    spread = values[label, predicted]
    return spread - spread.mean() + score(counts)
