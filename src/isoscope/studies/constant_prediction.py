"""By how much a run on texts is better than a prediction that reads no input: 0 for a model that learned nothing."""

import math
from collections.abc import Mapping
from typing import Any

from isoscope.platform.outputs import Output

TRANSLATED = "bleu"
"""Metric of translations; that of an empty text is 0."""


def above_of_text(output: Output, scores: Mapping[str, float], manifest: Mapping[str, Any]) -> dict[str, float]:
    """Return by how much the test scores of a language model are better than unigrams, and its BLEU than no text.

    Loss: nats per token below the unigram loss of the manifest. Other metrics, and a loss without unigrams, are left
    out.
    """
    unigram = counted_loss(output.params, manifest, unigram_of(output.objective), "test")
    known = {"loss": unigram - scores.get("loss", math.nan), TRANSLATED: scores.get(TRANSLATED, math.nan)}
    return {name: value for name, value in known.items() if not math.isnan(value)}


def unigram_of(kind: str) -> str:
    """Return the unigram model of an objective: a masked model does not predict the end of a text."""
    return "unigram_masked" if kind == "masked" else "unigram"


def counted_loss(params: Mapping[str, Any], manifest: Mapping[str, Any], name: str, split: str) -> float:
    """Return a counting model's loss on the side that a run predicts; NaN if the task has none.

    Losses depend on the tokenizer, so a run with another tokenizer than the task's has none.
    """
    encoder = params.get("model", {}).get("encoder", {})
    if encoder.get("kind") == "pretrained" or encoder.get("tokenizer", {}).get("kind", "task") != "task":
        return math.nan
    columns = manifest.get("columns") or [""]
    side = str(params["objective"].get("side", "target"))  # what an encoder-decoder predicts
    column = columns[0] if side == "source" else columns[-1]
    found = manifest.get("baselines", {}).get(name, {}).get(split, {}).get(column, {})
    return float(found.get("loss", math.nan))
