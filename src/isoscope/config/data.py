"""The section `data`: where a task's text comes from and how it is cut into tokens."""

from typing import Annotated, Literal

from pydantic import Field

from isoscope.config.base import Below, Fraction, PlainName, Section, Seed


class Embedded(Section):
    """A generated text task, deterministic in (seed, size, difficulty)."""

    kind: Literal["embedded"]
    generator: Literal["sentiment"]
    """Which grammar writes the text."""
    size: Annotated[int, Field(ge=100, le=1_000_000)]
    """Examples over all splits."""
    difficulty: Annotated[int, Field(ge=1, le=9)]
    """Depth of nesting: each level adds a scope that may turn the meaning round."""
    seed: Seed
    """Seed of the generator, apart from the seeds of training."""


class Columns(Section):
    """Which of the source's columns hold the text and the label; a pair has two texts."""

    sentence: str | None = None
    """Column of a single sentence."""
    sentence1: str | None = None
    """Column of the first sentence of a pair."""
    sentence2: str | None = None
    """Column of the second sentence of a pair."""
    label: str
    """Column of the class, integers or names."""


class Splits(Section):
    """Which of the source's splits (in a folder: files, without their ending) are ours; null is held out from train."""

    train: PlainName
    """Split that trains."""
    validation: PlainName | None
    """Split that selects the epoch."""
    test: PlainName | None
    """Split that is touched once, at the end."""


class Source(Section):
    """What a local and a hub source share."""

    columns: Columns
    splits: Splits
    held_out: Fraction
    """Share of train that becomes each split given as null."""
    seed: Seed
    """Seed of the holding out."""
    licence: str
    """Licence of the data, for the manifest (an SPDX name where there is one)."""


class Local(Source):
    """One file (parquet, csv, tsv, jsonl) or a folder of splits."""

    kind: Literal["local"]
    path: Below
    """File or folder below the project, without '..'."""


class Hub(Source):
    """A data set of the Hugging Face hub, found first in the folders of ISOSCOPE_HUB."""

    kind: Literal["hub"]
    name: Annotated[str, Field(pattern=r"^[\w.-]+(/[\w.-]+)?$")]
    """Name on the hub, `<name>` or `<org>/<name>`."""
    config: str | None
    """Configuration of the data set, where it has several."""
    revision: str
    """Commit, tag or branch on the hub."""


class Tokenizer(Section):
    """The WordPiece vocabulary trained on the task's train split."""

    vocab_size: Annotated[int, Field(ge=30, le=1_000_000)]
    """Word pieces at most, special tokens included."""
    lowercase: bool
    """Whether text is lower-cased and stripped of accents."""


class Data(Section):
    """Where a task's text comes from and how it is cut into tokens."""

    source: Annotated[Embedded | Local | Hub, Field(discriminator="kind")]
    tokenizer: Tokenizer
