"""Predict the labels of a sentence or pair, any number of them: binary cross-entropy, micro and macro F1."""

from typing import Any

import numpy as np
from torch import Tensor
from torch.nn import functional as F

from isoscope import plugins
from isoscope.metrics.label_scores import METRICS, TARGET, best_threshold, columns, probabilities, scores
from isoscope.objectives import Numbers, Scored, Task
from isoscope.objectives.labelled import Labelled

THRESHOLD = "threshold"
"""Entry of a checkpoint's configuration: a label is predicted if its probability is above it."""


class Multilabel(Labelled):
    """Multi-label objective: an output per label, mean binary cross-entropy over labels.

    The threshold of the probabilities is the same for all labels. Each evaluation of the validation split chooses it
    (the best micro F1) and keeps it in the model's configuration; the test split is scored with the chosen epoch's.
    """

    metrics = METRICS
    problem = "multi_label_classification"
    columns = staticmethod(columns)
    row_scores = staticmethod(scores)
    chooses = True

    @staticmethod
    def targets(table: Any, outputs: int) -> Any:
        found = np.zeros((len(table), outputs), np.float32)
        lists = table[TARGET].combine_chunks()
        found[lists.value_parent_indices().to_numpy(), lists.flatten().to_numpy()] = 1
        return found

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(logits, targets, reduction="sum") / len(self.labels)

    def predicted(self, model: Any, scored: Scored) -> tuple[Any, Numbers]:
        found, targets = probabilities(scored.columns["logits"]), self.splits[scored.split].labels
        if scored.split == "validation":
            setattr(model.config, THRESHOLD, best_threshold(targets, found))
        return found > getattr(model.config, THRESHOLD), targets.astype(np.float64)


@plugins.objective("multilabel")
def objective(task: Task) -> Multilabel:
    """Return the objective of a prepared task."""
    return Multilabel.read(task)
