"""The options of `isoscope geometry`, `spaces` and `evaluate`: type, values or bound, meaning, default.

The command line is made of them: a tuple lists the values, `--name` is a flag unlike the field's name.
"""

from typing import Annotated, Literal, NamedTuple, get_args

from annotated_types import Ge, Interval

from isoscope.base.built_in import MEASURES, TRANSFORMS

SENTENCE = "sentence"
"""The sentence vector of a sentence-transformers folder, of the last layer only."""
VECTORS = ("first", "last", "mean", SENTENCE, "words")
"""Kinds of representation: first token, last token, mean over tokens, sentence vector, words."""
GIVEN = "given"
"""Kind of the vectors of a file."""
ANALYSES = ("measures", "planes", "probing", "attention", "embedding", "spectrum", "topology")
"""Analyses, in the order of the page."""
SPACES_COMPARED = "spaces"
"""Analysis of two or more checkpoints, the grids of `isoscope spaces`. Minutes to hours, so only on request."""
ALIGNMENTS = ("joint", "procrustes", "sign")
"""How planes of several checkpoints are aligned, see `isoscope.geometry.planes`."""


Pooling = Literal["mean", "first", "last"]
"""A word's vector: the mean over its tokens, or that of its first or last token."""
POOLINGS: tuple[Pooling, ...] = get_args(Pooling)
ROWS: Literal["rows"] = "rows"
Probe = Literal["words", "sentences", "rows"]
"""Items of which spaces are compared; a sentence is the mean of its words. Vectors of files are rows."""
PROBES: tuple[Probe, ...] = ("words", "sentences")


WORD_TABLE = -1
"""Number of the layer of a word space that is the word table alone, without positions and LayerNorm."""
Length = Annotated[int, Ge(4), "Maximum tokens per sentence"]
Confidence = Annotated[float, Interval(ge=0.5, le=0.9999), "Coverage of intervals"]
BatchSize = Annotated[int, Ge(1), "Sentences per forward pass"]
Device = Annotated[str, ("cpu", "cuda"), "Device"]
Precision = Annotated[str, ("fp32", "bf16"), "Precision"]


class Settings(NamedTuple):
    """Options of `isoscope geometry`. Without `vectors`: `checkpoint_tables.asked_vectors`."""

    analyses: Annotated[
        tuple[str, ...], "--analysis", (*ANALYSES, SPACES_COMPARED), f"Analyses [default: all but {SPACES_COMPARED}]"
    ] = ANALYSES
    measures: Annotated[
        tuple[str, ...], "--measure", f"Measures: {', '.join(MEASURES)}, or a plugin's [default: all]"
    ] = tuple(MEASURES)
    transforms: Annotated[
        tuple[str, ...], "--transform", tuple(TRANSFORMS), "Measure again after a transform fitted on other sentences"
    ] = ("none",)
    vectors: Annotated[
        tuple[str, ...],
        VECTORS,
        f"Vectors [default: first (last of a decoder), mean, {SENTENCE} if there is one, words]",
    ] = ()
    sentences: Annotated[int, Ge(4), "Maximum number of distinct sentences to draw"] = 500
    words: Annotated[int, Ge(1), "Words to sample from the sentences"] = 500
    block: int = 40
    attended: Annotated[int, Ge(1), "Sentences in the attention pass"] = 40
    max_length: Length = 128
    subsample: Annotated[int, Ge(16), "Subsample size n of metrics that depend on n"] = 64
    draws: Annotated[int, Ge(2), "Number of subsamples"] = 20
    confidence: Confidence = 0.95
    folds: Annotated[int, Ge(2), "Cross-validation folds of the probes"] = 5
    # Unrelated checkpoints share no axes, only their sentences.
    alignment: Annotated[str, ALIGNMENTS, "Alignment of planes across checkpoints of equal shape"] = "procrustes"
    seed: Annotated[int, Ge(0), "Seed of the draws and of the random-weights control"] = 0
    batch_size: BatchSize = 32
    device: Device = "cpu"
    precision: Precision = "fp32"
    threads: Annotated[int, Ge(1), "CPU threads; more than 1 helps large models only"] = 1


DEFAULTS = Settings()


class SpaceSettings(NamedTuple):
    """Options of `isoscope spaces` and of a comparison of this kind; see the command's help."""

    probe: Annotated[Probe, PROBES, "Items to compare; a sentence is the mean of its words"] = "words"
    occurrences: Annotated[int, Ge(100), "Words to sample"] = 50_000
    per_sentence: Annotated[int, Ge(2), "Maximum words of a sentence"] = 25
    pooling: Annotated[Pooling, POOLINGS, "A word's vector over its tokens"] = "mean"
    max_length: Length = 128
    permutations: Annotated[int, Ge(2), "Permutations of whole sentences, for the null distribution"] = 20
    items: Annotated[int, Ge(20), "Sample of RSA and neighbours: a word each of so many sentences"] = 1000
    neighbours: Annotated[int, Ge(1), "Nearest neighbours that are compared"] = 10
    components: Annotated[int | None, Ge(1), "Principal components of each space for CCA [default: all]"] = None
    draws: Annotated[int, Ge(20), "Draws of the bootstrap over sentences"] = 200
    histogram: Annotated[int, Ge(1000), "Pairs of words of each distribution"] = 100_000
    confidence: Confidence = 0.95
    seed: Annotated[int, Ge(0), "Seed of the draws and of the random-weights controls"] = 0
    batch_size: BatchSize = 32
    device: Device = "cpu"
    precision: Precision = "fp32"
    threads: Annotated[int, Ge(1), "CPU threads"] = 1


SPACES = SpaceSettings()


class ScoreSettings(NamedTuple):
    """Options of `isoscope evaluate` that say how a model is run."""

    max_length: Annotated[int | None, Ge(4), "Maximum tokens of a text [default: the tokenizer's]"] = None
    confidence: Confidence = 0.95
    batch_size: Annotated[int, Ge(1), "Texts per forward pass"] = 32
    device: Device = "cpu"
    threads: Annotated[int, Ge(1), "CPU threads"] = 1
