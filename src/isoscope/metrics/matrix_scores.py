"""Scores of a classifier as functions of its confusion matrix."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isoscope.base.metric import Metric
from isoscope.metrics.item_shares import ItemShares

Counts = NDArray[np.int64]
Score = Callable[[Counts], float]


def confusion_matrix(label: ArrayLike, predicted: ArrayLike, classes: int) -> Counts:
    """Return counts `[C, C]`: row = actual class, column = predicted class.

    Raises `ValueError` if a class index is outside 0 … C−1.
    """
    label, predicted = np.asarray(label, dtype=np.int64), np.asarray(predicted, dtype=np.int64)
    if label.size and not (min(label.min(), predicted.min()) >= 0 and max(label.max(), predicted.max()) < classes):
        raise ValueError(f"class index outside 0 … {classes - 1}")
    return np.bincount(label * classes + predicted, minlength=classes * classes).reshape(classes, classes)


def accuracy(counts: Counts) -> float:
    """Return the share of items on the diagonal."""
    return float(np.trace(counts) / counts.sum())


def f1(counts: Counts) -> float:
    """F1 2·TP / (2·TP + FP + FN) of class 1 for two classes, else its unweighted mean over classes (macro).

    A class that is neither present nor predicted counts as 0.
    """
    return float(_f1_by_class(counts)[1]) if len(counts) == 2 else macro_f1(counts)


def macro_f1(counts: Counts) -> float:
    """Return the unweighted mean of F1 over classes; a class that is neither present nor predicted counts as 0."""
    return float(_f1_by_class(counts).mean())


def _f1_by_class(counts: Counts) -> NDArray[np.float64]:
    total = counts.sum(axis=0) + counts.sum(axis=1)
    return np.divide(2 * np.diag(counts), total, out=np.zeros(len(counts)), where=total > 0)


def balanced_accuracy(counts: Counts) -> float:
    """Return the mean recall over the classes that occur; 1 / C for a constant prediction of C classes."""
    actual = counts.sum(axis=1)
    return float((np.diag(counts)[actual > 0] / actual[actual > 0]).mean())


def matthews(counts: Counts) -> float:
    """Matthews correlation: covariance of actual and predicted class over the product of their standard deviations.

    0 if actual or predicted class never varies. Gorodkin's form for any number of classes.
    """
    total, actual, predicted = float(counts.sum()), counts.sum(axis=1).astype(float), counts.sum(axis=0).astype(float)
    covariance = np.trace(counts) * total - actual @ predicted
    scale = (total**2 - actual @ actual) * (total**2 - predicted @ predicted)
    return float(covariance / np.sqrt(scale)) if scale > 0 else 0.0


TARGET = "label"
"""Target of the tasks that it scores."""
SCORES: dict[str, Score] = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews": matthews,
    "balanced_accuracy": balanced_accuracy,
    "macro_f1": macro_f1,
}
METRICS = (
    Metric("loss", "Loss", "nats", better="minimise"),
    Metric("accuracy", "Accuracy", better="maximise", low=0.0, high=1.0),
    Metric("f1", "F1", better="maximise", low=0.0, high=1.0),
    Metric("matthews", "Matthews correlation", better="maximise", low=-1.0, high=1.0),
    Metric("balanced_accuracy", "Balanced accuracy", better="maximise", low=0.0, high=1.0),
    Metric("macro_f1", "F1, mean over classes", better="maximise", low=0.0, high=1.0),
)


_WEIGHTS = (
    "balanced: an example counts N / (classes · rows of its class) in the loss, so that all classes weigh the same; "
    "null: each example counts 1."
)


def options(class_weights: Annotated[Literal["balanced"] | None, _WEIGHTS] = None) -> None:
    """Classification of a sentence or pair, trained with cross-entropy."""


def columns(references: Counts, predictions: Counts, outputs: NDArray[Any]) -> dict[str, Any]:
    """Return the columns of a file of predictions after `row`: label, predicted, and the logits `[N, C]` by class."""
    return {
        "label": references,
        "predicted": predictions,
        **{f"logit_{number}": values for number, values in enumerate(outputs.T)},
    }


def scores(label: ArrayLike, predicted: ArrayLike, classes: int) -> dict[str, float]:
    """Return every score of `SCORES` by name."""
    counts = confusion_matrix(label, predicted, classes)
    return {name: score(counts) for name, score in SCORES.items()}


def constant_scores(label: ArrayLike, classes: int) -> dict[str, float]:
    """Return the best score of `SCORES` that the prediction of one class for every item reaches.

    Accuracy: the share of the largest class. F1 of two classes: that of always the second class. Matthews: 0.
    """
    label = np.asarray(label, dtype=np.int64)
    constant = [confusion_matrix(label, np.full(len(label), one), classes) for one in range(classes)]
    return {name: max(map(score, constant)) for name, score in SCORES.items()}


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


def by_item(predictions: Any) -> dict[str, ItemShares]:
    """Return the shares of loss and scores over the rows of a table of predictions: row, label, predicted, logit_0 ….

    The least loss without reading a text is the entropy of the labels.
    """
    from scipy.stats import entropy  # the configuration reads this module, and needs no library

    table = predictions.sort_values("row")
    label, predicted = table["label"].to_numpy(), table["predicted"].to_numpy()
    logits = table[[column for column in table if column.startswith("logit_")]].to_numpy(dtype=np.float64)
    losses = np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(label)), label]
    constant, classes = constant_scores(label, logits.shape[1]), logits.shape[1]
    scored = {
        name: ItemShares(pseudo_values(score, label, predicted, classes), constant[name])
        for name, score in SCORES.items()
    }
    return {"loss": ItemShares(losses, float(entropy(np.bincount(label))), sign=-1), **scored}
