"""Accuracy, F1 and Matthews correlation as a module of the library `evaluate`: the same metrics that training logs.

Works offline: `evaluate.load("…/isoscope/metrics/classification_scores.py")`, or `ClassificationScores()`.
"""

import datasets
import evaluate

from isoscope.metrics.matrix_scores import scores


class ClassificationScores(evaluate.Metric):
    """Accuracy, F1 (of class 1 for two classes, else the mean over classes) and Matthews correlation.

    `compute(predictions=…, references=…)` takes class numbers `[N]` and returns a float for each score. The number of
    classes is the largest class number plus one, at least two.
    """

    def _info(self) -> evaluate.MetricInfo:
        number = datasets.Value("int64")
        return evaluate.MetricInfo(
            description=__doc__,
            citation="",
            inputs_description="predictions, references: class numbers from 0",
            features=datasets.Features({"predictions": number, "references": number}),
        )

    def _compute(self, predictions: list[int], references: list[int]) -> dict[str, float]:
        return scores(references, predictions, max(1, *predictions, *references) + 1)
