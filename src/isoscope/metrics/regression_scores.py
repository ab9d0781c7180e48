"""Scores of predicted numbers: Spearman and Pearson correlation with the true scores, and sizes of the errors."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isoscope.base.metric import Metric
from isoscope.metrics.item_shares import Floats, ItemShares

TARGET = "score"
"""Target of the tasks that it scores."""
METRICS = (
    Metric("loss", "Loss", "squared error", better="minimise", low=0.0),
    Metric("spearman", "Spearman correlation", better="maximise", low=-1.0, high=1.0),
    Metric("pearson", "Pearson correlation", better="maximise", low=-1.0, high=1.0),
    Metric("rmse", "Root mean squared error", better="minimise", low=0.0),
    Metric("mae", "Mean absolute error", better="minimise", low=0.0),
)


def options() -> None:
    """Regression of a score on a sentence or pair, trained with squared error."""


def scores(references: ArrayLike, predictions: ArrayLike) -> dict[str, float]:
    """Return Spearman's ρ (tied values share their mean rank), Pearson's r, RMSE and MAE of `[N]` predicted numbers.

    Both correlations are 0 if the true scores or the predictions never vary.
    """
    true, predicted = np.asarray(references, np.float64), np.asarray(predictions, np.float64)
    error = predicted - true
    return {
        "spearman": _correlation(_mid_ranks(true), _mid_ranks(predicted)),
        "pearson": _correlation(true, predicted),
        "rmse": float(np.sqrt((error**2).mean())),
        "mae": float(np.abs(error).mean()),
    }


def columns(references: Floats, predictions: Floats, outputs: Floats) -> dict[str, Floats]:
    """Return the columns of a file of predictions after `row`: score, predicted."""
    return {"score": references, "predicted": predictions}


def by_item(predictions: Any) -> dict[str, ItemShares]:
    """Return the shares of loss and scores over the rows of a table of predictions: row, score, predicted.

    Each share is the score plus the row's influence function, so its spread is the first-order spread of the score over
    test items. A constant prediction has no correlation; the best constant is the mean, for MAE the median.
    """
    table = predictions.sort_values("row")
    true, predicted = (table[name].to_numpy(np.float64) for name in ("score", "predicted"))
    error, found = predicted - true, scores(true, predicted)
    rmse, spread = found["rmse"], float(true.std())
    of_rmse = rmse + (error**2 - rmse**2) / (2 * rmse) if rmse else np.zeros_like(error)
    return {
        "loss": ItemShares(error**2, spread**2, sign=-1),
        "spearman": ItemShares(found["spearman"] + _influence_of_ranks(true, predicted), 0.0),
        "pearson": ItemShares(found["pearson"] + _influence(true, predicted), 0.0),
        "rmse": ItemShares(of_rmse, spread, sign=-1),
        "mae": ItemShares(np.abs(error), float(np.abs(true - np.median(true)).mean()), sign=-1),
    }


def _mid_ranks(values: Floats) -> Floats:
    """Return the share of all values that are less, equal values counting half."""
    ordered = np.sort(values)
    below, upto = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
    return np.asarray((below + upto) / (2 * len(values)))


def _correlation(one: Floats, other: Floats) -> float:
    if not (np.ptp(one) and np.ptp(other)):
        return 0.0
    a, b = one - one.mean(), other - other.mean()
    return float(np.clip(a @ b / np.sqrt((a @ a) * (b @ b)), -1, 1))


def _influence(one: Floats, other: Floats) -> Floats:
    """Return each item's influence on Pearson's r: zₓ·z_y − r·(zₓ² + z_y²)/2 (Devlin et al. 1975)."""
    if not (np.ptp(one) and np.ptp(other)):
        return np.zeros_like(one)
    r = _correlation(one, other)
    a, b = ((values - values.mean()) / values.std() for values in (one, other))
    return np.asarray(a * b - r * (a**2 + b**2) / 2)


def _influence_of_ranks(one: Floats, other: Floats) -> Floats:
    """Return each item's influence on Spearman's ρ (Croux and Dehon 2010).

    ρ is the correlation of ranks, and an item also moves the ranks of the others: its influence on the mean of
    u(x)·v(y) has a term E[1(xᵢ < x)·v(y)] for each of both sides, and that on a variance twice the term of its side.
    """
    u, v = _mid_ranks(one) - 0.5, _mid_ranks(other) - 0.5
    cross, left, right = float((u * v).mean()), float((u * u).mean()), float((v * v).mean())
    if not left * right:
        return np.zeros_like(one)
    of_cross = u * v - cross + _moved(one, u, v) + _moved(other, v, u)
    of_left, of_right = (r * r - size + 2 * _moved(x, r, r) for x, r, size in ((one, u, left), (other, v, right)))
    scale = np.sqrt(left * right)
    return np.asarray(of_cross / scale - cross / scale * (of_left / left + of_right / right) / 2)


def _moved(values: Floats, ranks: Floats, weights: Floats) -> Floats:
    """Return, for each item, the mean over all others of (how it moves their centred `ranks`) · `weights`."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    sums = np.concatenate([[0.0], np.cumsum(weights[order])])
    below, upto = (sums[np.searchsorted(ordered, values, side=side)] for side in ("left", "right"))
    above = sums[-1] - (below + upto) / 2
    moved: NDArray[np.float64] = (above - ((ranks + 0.5) @ weights)) / len(values)
    return moved
