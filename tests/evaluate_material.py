"""A module of the library `evaluate`, as a user writes it, and a classifier."""

from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification

OWN = """\
import datasets
import evaluate


class Own(evaluate.Metric):
    def _info(self):
        number = datasets.Value("int64")
        features = datasets.Features({"predictions": number, "references": number})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions, references):
        right = sum(one == other for one, other in zip(predictions, references))
        return {"right": right, "accuracy": right / len(references), "each": predictions}
"""


def classifier(seed: int, **changes: Any) -> BertForSequenceClassification:
    """A BERT of random weights whose outputs vary between texts."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(seed)
    config = BertConfig(vocab_size=200, max_position_embeddings=40, initializer_range=0.5, **sizes | changes)
    return BertForSequenceClassification(config).eval()
