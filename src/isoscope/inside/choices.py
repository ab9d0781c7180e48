"""What `isoscope geometry` can be asked for, and what it takes where nothing else is asked for."""

from typing import NamedTuple

VECTORS = ("first", "last", "mean", "words")
"""Kinds of representation: of the first and the last token, the mean over tokens, and of words."""
ANALYSES = ("measures", "planes", "probing", "attention", "embedding", "spectrum", "topology")
"""In the order of the page."""
MEASURES = ("anisotropy", "isoscore", "similarity", "intrinsic", "homology", "classes", "shape")
"""The built-in measures, see `isoscope.inside.measures`."""
ALIGNMENTS = ("joint", "procrustes", "sign")
"""How planes of several checkpoints are aligned, see `isoscope.geometry.planes`."""


class Settings(NamedTuple):
    """What is looked at, and how; see the command's options. No `vectors`: `catalogue.usual_vectors`."""

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
