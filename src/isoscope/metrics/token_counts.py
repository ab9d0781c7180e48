"""Counts of predicted tokens, and the loss and accuracy of a language model made from them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isoscope.base.metric import Metric
from isoscope.metrics.item_shares import Floats, of_ratio

METRICS = (
    Metric("loss", "Loss", "nats", better="minimise"),
    Metric("accuracy", "Accuracy", better="maximise", low=0.0, high=1.0),
)


class TokenCounts(NamedTuple):
    """The tally: summed loss in nats, predicted tokens, and how many of them have the highest logit."""

    loss: float
    tokens: int
    right: int

    def __add__(self, other: "TokenCounts") -> "TokenCounts":  # type: ignore[override]
        return TokenCounts(self.loss + other.loss, self.tokens + other.tokens, self.right + other.right)

    def vector(self) -> NDArray[np.float64]:
        return np.array(self, np.float64)

    def metrics(self) -> dict[str, float]:
        """Return loss in nats per predicted token, and accuracy: the share of predicted tokens that are right."""
        return {"loss": self.loss / self.tokens, "accuracy": self.right / self.tokens}


def shares(predictions: Any) -> dict[str, Floats]:
    """Return each text's share of loss and accuracy, of a table of predictions: row, loss, tokens, right."""
    table = predictions.sort_values("row")
    loss, tokens, right = (table[name].to_numpy(np.float64) for name in ("loss", "tokens", "right"))
    return {"loss": of_ratio(loss, tokens), "accuracy": of_ratio(right, tokens)}
