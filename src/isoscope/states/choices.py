"""The options of `isoscope geometry` and `isoscope spaces`, and their defaults."""

from typing import Literal, NamedTuple

from isoscope.states.shown_metrics import SHOWN

VECTORS = ("first", "last", "mean", "words")
"""Kinds of representation: first token, last token, mean over tokens, words."""
ANALYSES = ("measures", "planes", "probing", "attention", "embedding", "spectrum", "topology")
"""Analyses, in the order of the page."""
SPACES_COMPARED = "spaces"
"""Analysis of two or more checkpoints, the grids of `isoscope spaces`. Minutes to hours, so only on request."""
MEASURES = tuple(SHOWN)
"""The built-in measures, see `isoscope.states.measures`."""
ALIGNMENTS = ("joint", "procrustes", "sign")
"""How planes of several checkpoints are aligned, see `isoscope.geometry.planes`."""


Pooling = Literal["mean", "first", "last"]
"""A word's vector: the mean over its tokens, or that of its first or last token."""
POOLINGS: tuple[Pooling, ...] = ("mean", "first", "last")
Probe = Literal["words", "sentences"]
"""Items of which spaces are compared; a sentence is the mean of its words."""
PROBES: tuple[Probe, ...] = ("words", "sentences")


WORD_TABLE = -1
"""Number of the layer of a word space that is the word table alone, without positions and LayerNorm."""


class Settings(NamedTuple):
    """Options of `isoscope geometry`; see the command's help. Without `vectors`: `catalogue.usual_vectors`."""

    analyses: tuple[str, ...] = ANALYSES
    measures: tuple[str, ...] = MEASURES
    vectors: tuple[str, ...] = ()
    sentences: int = 500
    words: int = 500
    block: int = 40
    attended: int = 40
    max_length: int = 128
    subsample: int = 64
    draws: int = 20
    confidence: float = 0.95
    folds: int = 5
    alignment: str = "procrustes"  # unrelated checkpoints share no axes, only their sentences
    seed: int = 0
    batch_size: int = 32
    device: str = "cpu"
    precision: str = "fp32"
    threads: int = 1


DEFAULTS = Settings()


class SpaceSettings(NamedTuple):
    """Options of `isoscope spaces` and of a comparison of this kind; see the command's help."""

    probe: Probe = "words"
    occurrences: int = 50_000
    per_sentence: int = 25
    pooling: Pooling = "mean"
    max_length: int = 128
    permutations: int = 20
    items: int = 1000
    neighbours: int = 10
    components: int | None = None
    draws: int = 200
    histogram: int = 100_000
    confidence: float = 0.95
    seed: int = 0
    batch_size: int = 32
    device: str = "cpu"
    precision: str = "fp32"
    threads: int = 1


SPACES = SpaceSettings()
