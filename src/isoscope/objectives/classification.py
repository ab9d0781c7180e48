"""Classify sentences and pairs: mean cross-entropy, accuracy, F1 and Matthews correlation."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from isoscope import plugins
from isoscope.data.tokens import Encoded
from isoscope.metrics.matrix_scores import METRICS, SCORES, columns
from isoscope.objectives import Indices, Numbers, Place, Scored, Task
from isoscope.objectives.labelled import Labelled


class Counts(NamedTuple):
    """The tally: summed loss, and counts of (true class, predicted class)."""

    loss: float
    confusion: npt.NDArray[np.int64]

    def __add__(self, other: "Counts") -> "Counts":  # type: ignore[override]
        return Counts(self.loss + other.loss, self.confusion + other.confusion)

    def vector(self) -> Numbers:
        return np.array([self.loss, *self.confusion.ravel()], np.float64)

    def metrics(self) -> dict[str, float]:
        """Return mean loss in nats, and the scores of the confusion matrix."""
        scores = {name: score(self.confusion) for name, score in SCORES.items()}
        return {"loss": self.loss / int(self.confusion.sum()), **scores}


class Classification(Labelled):
    """Classification objective: one label per example, cross-entropy of a classifier's logits.

    `class_weights`: factor of the loss of each class's examples `[C]`; None: 1.
    """

    metrics = METRICS
    problem = "single_label_classification"
    columns = staticmethod(columns)
    class_weights: Tensor | None = None

    def __init__(self, splits: Mapping[str, Encoded], **given: Any) -> None:
        super().__init__(splits, **given)
        self.classes = len(self.labels)

    @staticmethod
    def targets(table: Any, outputs: int) -> Any:
        return table["label"].to_numpy()

    def tally(self, vector: Numbers | None = None) -> Counts:
        loss, *counts = np.zeros(1 + self.classes**2) if vector is None else vector
        return Counts(float(loss), np.array(counts, np.int64).reshape(self.classes, self.classes))

    def owners(self, split: str, rows: Indices, place: Place) -> tuple[Indices, Indices]:
        owners, _ = super().owners(split, rows, place)
        return owners, self.splits[split].labels[rows[owners]]

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        weights = None if self.class_weights is None else self.class_weights.to(logits)
        return F.cross_entropy(logits, targets, weights, reduction="sum")

    def tallied(self, loss: Tensor, logits: Tensor, targets: Tensor) -> Tensor:
        pairs = targets * self.classes + logits.argmax(-1)
        counts = torch.zeros(1 + self.classes**2, dtype=torch.float64, device=pairs.device)
        counts.index_add_(0, pairs + 1, torch.ones_like(pairs, dtype=torch.float64))
        counts[0] = loss
        return counts

    def predicted(self, model: Any, scored: Scored) -> tuple[Indices, Indices]:
        return scored.columns["logits"].argmax(-1).astype(np.int64), self.splits[scored.split].labels.astype(np.int64)


def balanced(labels: Indices, classes: int) -> Tensor:
    """Return N / (C · N_c) for each class c `[C]`, as scikit-learn's `balanced`: their mean over the rows is 1."""
    counts = np.bincount(labels, minlength=classes)
    return torch.from_numpy(len(labels) / (classes * np.maximum(counts, 1))).float()


@plugins.objective("classification")
def objective(task: Task, class_weights: Literal["balanced"] | None = None) -> Classification:
    """Return the objective of a prepared task."""
    found = Classification.read(task)
    if class_weights is not None:
        found.class_weights = balanced(found.splits["train"].labels, found.classes)
    return found
