"""BLEU, chrF and the share of copied sources as a module of the library `evaluate`: what runs of translation log.

Works offline: `evaluate.load("…/isoscope/metrics/translation_metric.py")`, or `TranslationMetric()`.
"""

import datasets
import evaluate

from isoscope.metrics.translation_scores import translation_scores


class TranslationMetric(evaluate.Metric):
    """BLEU and chrF of a corpus with one reference per sentence, with their signatures.

    `compute(predictions=…, references=…, sources=…, tokenize="13a")` takes a text per sentence and returns the fields
    of `isoscope.metrics.translation_scores.TranslationScores`. `tokenize`: sacrebleu's name for the words of BLEU.
    """

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=__doc__,
            citation="",
            inputs_description="predictions, references, sources: a text per sentence",
            features=datasets.Features({"predictions": text, "references": text, "sources": text}),
        )

    def _compute(
        self, predictions: list[str], references: list[str], sources: list[str], tokenize: str = "13a"
    ) -> dict[str, float | int | str]:
        return translation_scores(predictions, sources, references, tokenize=tokenize)._asdict()
