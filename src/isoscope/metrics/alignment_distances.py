"""Squared distances of aligned states from their target and from their start, and how near the spaces are after it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isoscope.base.metric import Metric

METRICS = (
    Metric("loss", "Loss", "squared error per dimension, with its anchor", better="minimise"),
    Metric("error", "Squared error of the alignment, per dimension", better="minimise"),
    Metric("moved", "Squared distance moved by the alignment, per dimension", better="minimise"),
)
GENERATED = (
    Metric("r2", "R²", better="maximise", high=1.0),
    Metric("retrieval_forward", "CSLS retrieval, to the target", better="maximise", low=0.0, high=1.0),
    Metric("retrieval_back", "CSLS retrieval, back", better="maximise", low=0.0, high=1.0),
    Metric("cosine_forward", "Cosine retrieval, to the target", better="maximise", low=0.0, high=1.0),
    Metric("cosine_back", "Cosine retrieval, back", better="maximise", low=0.0, high=1.0),
    Metric("cka", "CKA", better="maximise", high=1.0),
    Metric("procrustes", "Procrustes similarity", better="maximise", high=1.0),
    Metric("rsa", "RSA", better="maximise", high=1.0),
    Metric("neighbours", "Common neighbours", better="maximise", high=1.0),
    Metric("pwcca", "PWCCA", better="maximise", high=1.0),
)


class Distances(NamedTuple):
    """The tally: summed loss, squared distances (means over dimensions) from the target and from the start, tokens."""

    loss: float
    error: float
    moved: float
    tokens: int

    def __add__(self, other: "Distances") -> "Distances":  # type: ignore[override]
        return Distances(*(one + two for one, two in zip(self, other, strict=True)))  # type: ignore[arg-type]

    def vector(self) -> NDArray[np.float64]:
        return np.array(self, np.float64)

    def metrics(self) -> dict[str, float]:
        """Return the loss, and the squared distances from the target and from the start, per token and dimension."""
        return {name: getattr(self, name) / self.tokens for name in ("loss", "error", "moved")}
