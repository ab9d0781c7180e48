"""The section `data`: the source of a task's text, and its tokenizer."""

from typing import Annotated, Literal

from pydantic import Field

from isoscope.config.base import Below, Fraction, PlainName, Section, Seed


class Embedded(Section):
    """A generated text task, deterministic in (seed, size, difficulty)."""

    kind: Literal["embedded"]
    generator: Literal["sentiment"]
    """Grammar that generates the text."""
    size: Annotated[int, Field(ge=100, le=1_000_000)]
    """Examples over all splits."""
    difficulty: Annotated[int, Field(ge=1, le=9)]
    """Depth of nesting: each level adds a scope that may reverse the meaning."""
    seed: Seed
    """Seed of the generator, independent of the training seeds."""


class Columns(Section):
    """Columns of text and label; a pair has two text columns."""

    sentence: str | None = None
    """Column of a single sentence."""
    sentence1: str | None = None
    """Column of the first sentence of a pair."""
    sentence2: str | None = None
    """Column of the second sentence of a pair."""
    label: str
    """Column of the class label: integers or names."""


class Splits(Section):
    """Names of the splits in the source (in a folder: file names without suffix); null: held out from train."""

    train: PlainName
    """Training split."""
    validation: PlainName | None
    """Split that selects the epoch."""
    test: PlainName | None
    """Held-out split, evaluated once, at the end."""


class Source(Section):
    """Options of local and hub sources."""

    columns: Columns
    splits: Splits
    held_out: Fraction
    """Share of train that is held out for each split given as null."""
    seed: Seed
    """Seed of the held-out draw."""
    licence: str
    """Licence of the data, for the manifest (an SPDX identifier if one exists)."""


class Local(Source):
    """One file (parquet, csv, tsv, jsonl) or a folder of splits."""

    kind: Literal["local"]
    path: Below
    """File or folder below the project, without '..'."""


class Hub(Source):
    """A data set of the Hugging Face hub; folders of ISOSCOPE_HUB are searched first."""

    kind: Literal["hub"]
    name: Annotated[str, Field(pattern=r"^[\w.-]+(/[\w.-]+)?$")]
    """Name on the hub, `<name>` or `<org>/<name>`."""
    config: str | None
    """Configuration of the data set; null if it has only one."""
    revision: str
    """Commit, tag or branch on the hub."""


class Tokenizer(Section):
    """The WordPiece vocabulary trained on the task's train split."""

    vocab_size: Annotated[int, Field(ge=30, le=1_000_000)]
    """Maximum number of word pieces, special tokens included."""
    lowercase: bool
    """Convert text to lower case and remove accents."""


class Data(Section):
    """The source of a task's text, and its tokenizer."""

    source: Annotated[Embedded | Local | Hub, Field(discriminator="kind")]
    tokenizer: Tokenizer
