"""Micro and macro F1 and subset accuracy as a module of the library `evaluate`: the same metrics that training logs.

Works offline: `evaluate.load("…/isoscope/metrics/multilabel_metric.py")`, or `MultilabelMetric()`.
"""

import datasets
import evaluate

from isoscope.metrics.label_scores import scores


class MultilabelMetric(evaluate.Metric):
    """F1 of all labels together and averaged over labels, subset accuracy, and predicted labels per text.

    `compute(predictions=…, references=…)` takes 0 or 1 by text and label `[N, L]` and returns a float for each score.
    """

    def _info(self) -> evaluate.MetricInfo:
        labels = datasets.Sequence(datasets.Value("int64"))
        return evaluate.MetricInfo(
            description=__doc__,
            citation="",
            inputs_description="predictions, references: 0 or 1 for each label, by text",
            features=datasets.Features({"predictions": labels, "references": labels}),
        )

    def _compute(self, predictions: list[list[int]], references: list[list[int]]) -> dict[str, float]:
        return scores(references, predictions)
