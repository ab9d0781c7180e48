"""Spearman, Pearson, RMSE and MAE as a module of the library `evaluate`: the same metrics that training logs.

Works offline: `evaluate.load("…/isoscope/metrics/regression_metric.py")`, or `RegressionMetric()`.
"""

import datasets
import evaluate

from isoscope.metrics.regression_scores import scores


class RegressionMetric(evaluate.Metric):
    """Spearman's and Pearson's correlation, root mean squared error and mean absolute error.

    `compute(predictions=…, references=…)` takes numbers `[N]` and returns a float for each score.
    """

    def _info(self) -> evaluate.MetricInfo:
        number = datasets.Value("float64")
        return evaluate.MetricInfo(
            description=__doc__,
            citation="",
            inputs_description="predictions, references: a number per text",
            features=datasets.Features({"predictions": number, "references": number}),
        )

    def _compute(self, predictions: list[float], references: list[float]) -> dict[str, float]:
        return scores(references, predictions)
