"""The analyses of hidden states by name: each a function of a run that gives its tables, those it has anything for."""

from collections.abc import Callable
from typing import NamedTuple

import pandas as pd

from isoscope.analysis import block
from isoscope.analysis.embedding_space import decoding_table, neighbour_table
from isoscope.analysis.heads import attention_table
from isoscope.analysis.learning import learning_table
from isoscope.analysis.probing import baselines_table, probing_table
from isoscope.analysis.rank_views import predicted_table, rank_table, singular_values
from isoscope.analysis.topology import topology
from isoscope.analysis.trajectory import Trajectory

Tables = dict[str, pd.DataFrame]
MAPPED = 24
"""Tokens of a cosine map: few enough to be named."""
MOMENTS = ("chosen", "random")
"""Of a checkpoint, whose one snapshot is its first and its last one too."""


def usual_vectors(*, causal: bool, cls: bool) -> tuple[str, ...]:
    """The kinds that are looked at where none is asked for: what a model itself makes of a sentence, and words.

    [CLS] and the mean of an encoder, the mean alone where its tokenizer has no [CLS] (`cls`); of a `causal` model,
    whose first token has seen no other, the last token and the mean. [SEP] is looked at only where it is asked for.
    """
    if causal:
        return ("last", "mean", "words")
    return ("first", "mean", "words") if cls else ("mean", "words")


class Asked(NamedTuple):
    """What is looked at: `vectors` of sentences, by kind; the seed of draws, the folds of probes, the coverage of
    intervals, near tokens looked at, and points of a persistence diagram.
    """

    vectors: tuple[str, ...]
    seed: int
    folds: int
    confidence: float
    neighbours: int
    diagram: int


def _probing(run: Trajectory, asked: Asked) -> Tables:
    vectors, seed, folds = asked.vectors, asked.seed, asked.folds
    return {
        "probing": probing_table(run, vectors=vectors, seed=seed, folds=folds),
        "learning": learning_table(run, vectors=vectors, seed=seed, folds=folds),
        "baselines": baselines_table(run, seed=seed, folds=folds),
    }


def _attention(run: Trajectory, _: Asked) -> Tables:
    return {"attention": attention_table(run)} if "attention_entropy" in run.arrays(run.best).names else {}


def _embedding(run: Trajectory, asked: Asked) -> Tables:
    return {
        "cosines": block.cosine_table(run),
        "token_cosines": block.token_cosine_table(run, most=MAPPED),
        "dimensions": block.dimension_table(run),
        "neighbours": neighbour_table(run, k=asked.neighbours, confidence=asked.confidence, seed=asked.seed),
        "decoding": decoding_table(run, seed=asked.seed),
    }


def _spectrum(run: Trajectory, asked: Asked) -> Tables:
    return {
        "spectrum": block.spectrum_table(run, seed=asked.seed),
        "magnitudes": block.magnitude_table(run),
        "singular_values": singular_values(run, vectors=asked.vectors),
    }


def _fusion(run: Trajectory, _: Asked) -> Tables:
    return {
        "kernel": block.kernel_table(run),
        "weights": block.weight_table(run),
        "gradients": block.gradient_table(run),
        "ranks": rank_table(run),
        "predicted": predicted_table(run),
    }


def _topology(run: Trajectory, asked: Asked) -> Tables:
    found: dict[str, list[pd.DataFrame]] = {"bars": [], "distances": []}
    for vectors in asked.vectors:
        for name, table in zip(
            found, topology(run, points=asked.diagram, seed=asked.seed, vectors=vectors), strict=True
        ):
            if len(table):
                kept = table if len(run.trained) > 1 else table[table["moment"].isin(MOMENTS)]
                found[name].append(kept.assign(vectors=vectors))
    return {name: pd.concat(parts, ignore_index=True) for name, parts in found.items() if parts}


ANALYSES: dict[str, Callable[[Trajectory, Asked], Tables]] = {
    "probing": _probing,
    "attention": _attention,
    "embedding": _embedding,
    "spectrum": _spectrum,
    "fusion": _fusion,
    "topology": _topology,
}


def analysed(name: str, run: Trajectory, asked: Asked) -> Tables:
    """The tables of one analysis of `ANALYSES` that have rows."""
    return {one: table for one, table in ANALYSES[name](run, asked).items() if len(table)}
