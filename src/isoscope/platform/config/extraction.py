"""The sections `extraction` and `measures`: which representations to extract, and what to compute from them."""

from typing import Annotated, Literal

from pydantic import Field

from isoscope.platform.config.base import Below, Count, Level, Name, Section, Seed, Share


class Treebank(Section):
    """Sentences with part-of-speech tags and dependency trees."""

    file: Below
    """A parquet file (tokens, upos, head) below texts/, or a data set's name below ISOSCOPE_HUB; `task`: the treebank
    that the task was prepared with, if any (generated tasks have trees).
    """
    sentences: Count
    """Number of sentences to draw."""


class Extraction(Section):
    """The probe set, and the forward pass that stores its hidden states."""

    split: Literal["test", "validation"]
    """Split of the sentences; sentences that also occur in another split are left out. Note: the validation split
    selects the epoch.
    """
    every: Count
    """Analyse every n-th snapshot; always the first, the selected and the last."""
    share: Share
    """Share of the split's distinct sentences to use."""
    sentences: Count | None
    """Maximum number of sentences; null: no maximum."""
    words: Count
    """Minimum number of sampled words; whole sentences are drawn until it is reached."""
    block: Annotated[int, Field(ge=5)]
    """Sentences whose embedding-block parts are stored; linear maps on them are scored by 5-fold cross-validation."""
    attended: Count
    """Sentences in the attention pass."""
    gradients: Annotated[int, Field(ge=2)]
    """Maximum number of batches whose embedding-block gradients are compared; limited by the probe set's size."""
    gradient_batch: Count
    """Sentences per gradient batch."""
    treebank: Treebank | None
    """Treebank of the word probes; null: no word probes."""
    seed: Seed
    """Seed of these samples."""
    batch_size: Count
    """Sentences per forward pass."""
    precision: Literal["fp32", "bf16"]
    """Precision of the forward pass; stored values are fp32."""
    device: Literal["cpu", "cuda"]
    """Device; an absent device is an error, never replaced."""
    threads: Count | None
    """CPU threads; null: torch's default."""


class Probes(Section):
    """Linear probes of hidden states."""

    vectors: Annotated[tuple[Literal["first", "last", "mean"], ...], Field(min_length=1, strict=False)]
    """Sentence representations to probe; words are always probed."""
    every: Count
    """Probe every n-th snapshot for the label; always, and in detail, the first, the selected and the random twin."""
    folds: Annotated[int, Field(ge=2)]
    """Outer cross-validation folds, split by sentence."""


class Measures(Section):
    """Measures computed from hidden states."""

    names: Annotated[tuple[Name, ...], Field(min_length=1, strict=False)]
    """Built-in and plugin measures to compute for every layer, snapshot and kind of representation."""
    vectors: Annotated[tuple[Literal["first", "last", "mean", "words"], ...], Field(min_length=1, strict=False)]
    """Representations to measure: first token ([CLS]), last token, mean over tokens, sampled words."""
    subsample: Annotated[int, Field(ge=16)]
    """Points per subsample (without replacement), for metrics at a fixed n and for intervals."""
    draws: Annotated[int, Field(ge=2)]
    """Number of subsamples."""
    confidence: Level
    """Coverage of the prediction intervals of metrics at a fixed n."""
    probes: Probes
    alignment: Literal["joint", "procrustes", "sign"]
    """Alignment of planes across snapshots."""
    perplexity: Annotated[float, Field(gt=1, le=1000)]
    """Perplexity of t-SNE."""
    neighbours: Count
    """Nearest neighbours per token, compared by word and by position."""
    diagram: Annotated[int, Field(ge=3)]
    """Points per persistence diagram; the cost of H1 grows with their cube."""
    map: Annotated[int, Field(ge=3)]
    """Tokens per arm in a t-SNE map, fewer if many arms share it; cost grows with their square."""
    square: Annotated[int, Field(ge=2)]
    """Tokens in a cosine map."""
    seed: Seed
    """Seed of subsamples, splits, k-means and t-SNE."""
    processes: Count | None
    """CPU processes per run; null: one per core."""
    threads: Count | None
    """CPU threads of linear algebra per process; null: the libraries' default, which suits a single process only."""
