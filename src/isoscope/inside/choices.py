"""The options of `isoscope geometry` and their defaults."""

from typing import NamedTuple

VECTORS = ("first", "last", "mean", "words")
"""Kinds of representation: first token, last token, mean over tokens, words."""
ANALYSES = ("measures", "planes", "probing", "attention", "embedding", "spectrum", "topology")
"""Analyses, in the order of the page."""
MEASURES = ("anisotropy", "isoscore", "similarity", "intrinsic", "homology", "classes", "shape")
"""The built-in measures, see `isoscope.inside.measures`."""
ALIGNMENTS = ("joint", "procrustes", "sign")
"""How planes of several checkpoints are aligned, see `isoscope.geometry.planes`."""


class Settings(NamedTuple):
    """Options of `isoscope geometry`; see the command's help. Without `vectors`: `catalogue.usual_vectors`."""

    analyses: tuple[str, ...] = ANALYSES
    measures: tuple[str, ...] = MEASURES
    vectors: tuple[str, ...] = ()
    sentences: int = 500
    words: int = 500
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
