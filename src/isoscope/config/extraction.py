"""The sections `extraction` and `measures`: what is looked at inside a model, and how."""

from typing import Annotated, Literal

from pydantic import Field

from isoscope.config.base import Below, Count, Level, Name, Section, Seed, Share


class Treebank(Section):
    """Sentences whose words have a part of speech and a place in a tree."""

    file: Below
    """A parquet file (tokens, upos, head) below texts/, or a data set's name below ISOSCOPE_HUB; `task`: what the task
    was prepared with, if it was (the generated ones know their trees).
    """
    sentences: Count
    """Sentences drawn from it."""


class Extraction(Section):
    """The probe set, and the pass over it that keeps hidden states."""

    split: Literal["test", "validation"]
    """Split the sentences come from; those that stand in another split too are left out. Those of validation have
    chosen the epoch.
    """
    every: Count
    """Analyse every n-th snapshot; always the first, the selected and the last."""
    share: Share
    """Share of its distinct sentences."""
    sentences: Count | None
    """Sentences at most; null for the whole share."""
    words: Count
    """Words at least; whole sentences are drawn until they hold so many."""
    block: Annotated[int, Field(ge=5)]
    """Sentences whose tokens' embedding parts are kept; what is read back from them is judged in five folds."""
    attended: Count
    """Sentences of the attention pass."""
    gradients: Annotated[int, Field(ge=2)]
    """Batches whose gradients of the embedding block are compared; as many as the probe set has sentences for."""
    gradient_batch: Count
    """Sentences of such a batch: its gradient is one draw."""
    treebank: Treebank | None
    """Where probes of words find tags and trees; null: they are not run."""
    seed: Seed
    """Of these samples."""
    batch_size: Count
    """Sentences per forward pass."""
    precision: Literal["fp32", "bf16"]
    """Arithmetic of the forward pass; what is kept is fp32."""
    device: Literal["cpu", "cuda"]
    """Where; an absent device is an error, never replaced."""
    threads: Count | None
    """CPU threads; null leaves torch's own choice."""


class Probes(Section):
    """Linear readers of hidden states."""

    vectors: Annotated[tuple[Literal["first", "last", "mean"], ...], Field(min_length=1, strict=False)]
    """Representations of sentences that are probed; words are probed anyway."""
    every: Count
    """Probe every n-th snapshot for the label; always, and in detail, the first, the selected and the random twin."""
    folds: Annotated[int, Field(ge=2)]
    """Outer folds, by sentence."""


class Measures(Section):
    """What is computed from hidden states."""

    names: Annotated[tuple[Name, ...], Field(min_length=1, strict=False)]
    """Measures of every layer, snapshot and kind of representation: built-in ones and plugins'."""
    vectors: Annotated[tuple[Literal["first", "last", "mean", "words"], ...], Field(min_length=1, strict=False)]
    """Representations measured: the first token ([CLS]), the last one, the mean over tokens, sampled words."""
    subsample: Annotated[int, Field(ge=16)]
    """Points of a subsample without replacement, for figures at a fixed n and intervals."""
    draws: Annotated[int, Field(ge=2)]
    """Subsamples."""
    confidence: Level
    """Coverage of the prediction intervals for figures at a fixed n."""
    probes: Probes
    alignment: Literal["joint", "procrustes", "sign"]
    """How planes of snapshots are turned towards each other."""
    perplexity: Annotated[float, Field(gt=1, le=1000)]
    """Of t-SNE."""
    neighbours: Count
    """Near tokens of a token, of which some are the same word or stand at the same place."""
    diagram: Annotated[int, Field(ge=3)]
    """Points of a persistence diagram; H1 costs their cube."""
    map: Annotated[int, Field(ge=3)]
    """Tokens of each arm in a t-SNE map, fewer where many arms share it; it costs their square."""
    square: Annotated[int, Field(ge=2)]
    """Tokens of a cosine map."""
    seed: Seed
    """Of subsamples, splits, k-means and t-SNE."""
    processes: Count | None
    """CPU processes that a run's measures are spread over; null: one a core."""
    threads: Count | None
    """CPU threads of linear algebra in each of them; null, the libraries' own choice, suits one process alone."""
