"""Predict a score of a sentence or pair: mean squared error, Spearman and Pearson correlation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor
from torch.nn import functional as F

from isoscope import plugins
from isoscope.metrics.regression_scores import METRICS, TARGET, columns, scores
from isoscope.objectives import Numbers, Scored, Task
from isoscope.objectives.labelled import Labelled, set_bias


class Regression(Labelled):
    """Regression objective: a number per example, squared error of the head's only output."""

    metrics = METRICS
    problem = "regression"
    columns = staticmethod(columns)
    row_scores = staticmethod(scores)

    @staticmethod
    def names(manifest: Mapping[str, Any]) -> list[str]:
        return [TARGET]

    @staticmethod
    def targets(table: Any, outputs: int) -> Any:
        return table[TARGET].to_numpy()  # metrics are of the scores as given

    def build(self, model: Mapping[str, Any], checkpoint: Path | None) -> Any:
        """Return the model; a new head starts from the mean score of train."""
        built = super().build(model, checkpoint)
        if not self.keeps_head:
            set_bias(built, self.splits["train"].labels.mean())
        return built

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(logits[:, 0], targets.to(logits.dtype), reduction="sum")

    def predicted(self, model: Any, scored: Scored) -> tuple[Numbers, Numbers]:
        predictions, targets = scored.columns["logits"][:, 0], self.splits[scored.split].labels
        return predictions.astype(np.float64), targets.astype(np.float64)


@plugins.objective("regression")
def objective(task: Task) -> Regression:
    """Return the objective of a prepared task."""
    return Regression.read(task)
