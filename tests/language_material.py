"""Tiny language models of every kind, and their texts, for the tests of training."""

from typing import Any

import numpy as np
import pyarrow as pa

from isoscope.objectives import causal, masked, translation
from training_runs import WORDS

SELECTED = {"select": "loss"}
ALLOCATED = {
    "sentences": 16, "folds": 4, "estimator": "simpson", "tolerance": None, "most_splits": 16, "dense": 3, "chords": 4,
    "heads": True, "minibatch": True, "parts": True,
}  # fmt: skip
SLICED: dict[str, Any] = {
    "sentences": 16, "estimator": "simpson", "tolerance": None, "most_splits": 16, "dense": 1, "chords": 2,
    "probability": 0.12,
}  # fmt: skip


def pairs(rows: int, seed: int) -> pa.Table:
    """Sentences of two to six words, and the same words in reverse."""
    draw = np.random.default_rng(seed)
    sentences = [list(draw.choice(WORDS, draw.integers(2, 7))) for _ in range(rows)]
    columns = [" ".join(one) for one in sentences], [" ".join(reversed(one)) for one in sentences]
    return pa.table(list(columns), ["sentence1", "sentence2"])


def masked_lm(task: Any) -> Any:
    return masked.Masked(task, side="source", rate=0.3, masked=0.8, random=0.1, tied=True)


def causal_lm(task: Any) -> Any:
    return causal.Causal(task, side="target", share=1.0, tied=True)


def translates(task: Any) -> Any:
    return translation.Translation(task, beams=1, sentences=4, tied=True, tokenize="13a")


OBJECTIVES = [masked_lm, causal_lm, translates]
