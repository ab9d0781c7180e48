"""The section `data`: the source of a task's text, and its tokenizer."""

from typing import Annotated, Literal

from pydantic import Field

from isoscope.platform.config.base import Below, Conflicts, Fraction, PlainName, Section, Seed


class Embedded(Section):
    """A generated text task, deterministic in (seed, size, difficulty)."""

    kind: Literal["embedded"]
    generator: Literal["sentiment", "translation"]
    """sentiment: labelled sentences; translation: pairs of a sentence and its translation, without labels."""
    size: Annotated[int, Field(ge=100, le=1_000_000)]
    """Examples over all splits."""
    difficulty: Annotated[int, Field(ge=1, le=9)]
    """sentiment: depth of nesting, each level may reverse the meaning; translation: each level adds 3 successors."""
    seed: Seed
    """Seed of the generator, independent of the training seeds."""


class Columns(Section):
    """Columns of text and target: label, score or labels. A pair has two text columns, a text task has no target."""

    sentence: str | None = None
    """Column of a single sentence."""
    sentence1: str | None = None
    """Column of the first sentence of a pair; in translation, of the source language."""
    sentence2: str | None = None
    """Column of the second sentence of a pair; in translation, of the target language."""
    label: str | None = None
    """Column of the class label: integers or names."""
    score: str | None = None
    """Column of the score that a regression predicts: finite numbers."""
    labels: str | None = None
    """Column of any number of labels per row: lists (jsonl, parquet), or text that data.source.separator splits."""
    group: str | None = None
    """Column of what texts have in common, such as their author; no group is in two splits."""

    def _conflicts(self) -> Conflicts:
        given = [name for name in ("label", "score", "labels") if getattr(self, name) is not None]
        yield len(given) > 1, f"{' and '.join(given)} name two targets; a task has one: set the others to null"


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
    separator: Annotated[str, Field(min_length=1)] | None = None
    """Text between two labels of columns.labels in csv and tsv, such as '|'; null: the column holds lists."""

    def _conflicts(self) -> Conflicts:
        alone = self.separator is not None and self.columns.labels is None
        yield alone, "separator splits the column of columns.labels; name that column, or set separator to null"


class Local(Source):
    """One file (parquet, csv, tsv, jsonl, txt), a folder of splits, or a folder of datasets.save_to_disk."""

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
    """The vocabulary trained on the task's train split, on all its text columns together."""

    kind: Literal["wordpiece", "bpe"]
    """wordpiece: BERT's words and pieces; bpe: byte-pair encoding that marks spaces, so that text can be restored."""
    vocab_size: Annotated[int, Field(ge=30, le=1_000_000)]
    """Maximum number of pieces, special tokens included."""
    lowercase: bool
    """Convert text to lower case. wordpiece also removes accents; bpe keeps them."""


AnySource = Annotated[Embedded | Local | Hub, Field(discriminator="kind")]


class JointTokenizer(Section):
    """One byte-pair encoding for several tasks: trained on the train splits of `sources`, all text columns together.

    Tasks with equal sources have the same vocabulary. A task's own text counts only if its source is listed.
    """

    kind: Literal["joint_bpe"]
    sources: Annotated[tuple[AnySource, ...], Field(strict=False, min_length=1)]
    """Sources of text, as in data.source."""
    vocab_size: Annotated[int, Field(ge=30, le=1_000_000)]
    """Maximum number of pieces, special tokens included."""
    lowercase: bool
    """Convert text to lower case; accents stay."""


class Data(Section):
    """The source of a task's text, and its tokenizer."""

    source: AnySource
    tokenizer: Annotated[Tokenizer | JointTokenizer, Field(discriminator="kind")]
