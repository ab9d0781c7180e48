"""Scores of sets of labels: micro and macro F1, subset accuracy, and how many labels are predicted."""

from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isoscope.base.metric import Metric
from isoscope.metrics.item_shares import Floats, ItemShares, of_ratio

TARGET = "labels"
"""Target of the tasks that it scores."""
METRICS = (
    Metric("loss", "Loss", "nats per label", better="minimise", low=0.0),
    Metric("micro_f1", "F1, all labels together", better="maximise", low=0.0, high=1.0),
    Metric("macro_f1", "F1, mean over labels", better="maximise", low=0.0, high=1.0),
    Metric("subset_accuracy", "Share of texts with exactly the true labels", better="maximise", low=0.0, high=1.0),
    Metric("cardinality", "Predicted labels per text", low=0.0),
)
SHARES = np.arange(0.01, 1.0, 0.01)
"""Thresholds of a label's probability that are tried."""


def options() -> None:
    """Labels of a sentence or pair, any number of them, trained with binary cross-entropy."""


def scores(references: ArrayLike, predictions: ArrayLike) -> dict[str, float]:
    """Return micro and macro F1, subset accuracy and cardinality of labels, 0 or 1 by text and label `[N, L]`.

    F1 is 2·TP / (2·TP + FP + FN): of all labels together, or averaged over labels, where a label that is neither
    present nor predicted counts as 0.
    """
    return {name: float(shares.mean()) for name, shares in _shares(references, predictions).items()}


def _shares(references: ArrayLike, predictions: ArrayLike) -> dict[str, Floats]:
    """Return each text's share `[N]` of each score."""
    true, predicted = np.asarray(references, np.float64), np.asarray(predictions, np.float64)
    hits, size = 2 * true * predicted, true + predicted  # 2·TP and 2·TP + FP + FN, by text and label
    return {
        "micro_f1": of_ratio(hits.sum(1), size.sum(1)),
        "macro_f1": of_ratio(hits, size).mean(axis=1),
        "subset_accuracy": (true == predicted).all(axis=1).astype(np.float64),
        "cardinality": predicted.sum(axis=1),
    }


def best_threshold(references: ArrayLike, probabilities: Floats) -> float:
    """Return the threshold of `SHARES`, the same for all labels, with the best micro F1; of several the middle."""
    true = np.asarray(references, np.float64)
    found = [scores(true, probabilities > threshold)["micro_f1"] for threshold in SHARES]
    equal = SHARES[np.isclose(found, max(found), rtol=0, atol=1e-12)]
    return float(equal[len(equal) // 2])


def best_constant(references: ArrayLike) -> NDArray[np.bool_]:
    """Return the label set `[L]` whose prediction for every text has the best micro F1: the most frequent labels."""
    counts = np.asarray(references, np.float64).sum(axis=0)
    order, n = np.argsort(-counts, kind="stable"), len(np.asarray(references))
    hits = [*accumulate(counts[order])]
    f1 = [2 * hit / (k * n + counts.sum()) for k, hit in enumerate(hits, start=1)]
    found = np.zeros(len(counts), bool)
    found[order[: int(np.argmax(f1)) + 1]] = True
    return found


def columns(references: ArrayLike, predictions: Any, outputs: NDArray[Any]) -> dict[str, Any]:
    """Return the columns of a file of predictions after `row`: label_0 …, predicted_0 …, probability_0 …, of logits
    `[N, L]`.
    """
    parts = {"label": np.asarray(references) > 0, "predicted": predictions, "probability": probabilities(outputs)}
    return {f"{name}_{number}": one for name, values in parts.items() for number, one in enumerate(values.T)}


def probabilities(outputs: NDArray[Any]) -> Floats:
    """Return the probability of each label, 1 / (1 + exp(−logit)), `[N, L]`."""
    from scipy.special import expit  # the configuration reads this module, and needs no library

    return np.asarray(expit(outputs.astype(np.float64)))


def by_item(predictions: Any) -> dict[str, ItemShares]:
    """Return the shares of loss and scores over the rows of a table of predictions: row, label_0 …, predicted_0 …,
    probability_0 ….

    What is best without reading a text: for micro F1 `best_constant`; for macro F1 every label; for subset accuracy the
    most frequent set; for the loss the frequencies of the labels.
    """
    table = predictions.sort_values("row")

    def matrix(name: str) -> Floats:
        found: Floats = table[[column for column in table if column.startswith(f"{name}_")]].to_numpy(np.float64)
        return found

    true, shares = matrix("label"), _shares(matrix("label"), matrix("predicted"))
    losses, entropy = (
        cross_entropy(true, chance).mean(axis=1) for chance in (matrix("probability"), true.mean(axis=0))
    )
    every, frequent = np.ones_like(true), np.unique(true, axis=0, return_counts=True)[1].max() / len(true)
    constant = {
        "micro_f1": scores(true, np.broadcast_to(best_constant(true), true.shape))["micro_f1"],
        "macro_f1": scores(true, every)["macro_f1"],
        "subset_accuracy": float(frequent),
    }
    scored = {name: ItemShares(shares[name], best) for name, best in constant.items()}
    return {"loss": ItemShares(losses, float(entropy.mean()), sign=-1), **scored}


def cross_entropy(true: Floats, probability: Floats) -> Floats:
    """Return −ln of the probability of what is true, by text and label `[N, L]`; probabilities are kept off 0 and 1."""
    inside = np.clip(probability, 1e-12, 1 - 1e-12)
    return np.asarray(-np.where(true > 0, np.log(inside), np.log1p(-inside)))
