"""Corpus: the common form of every data set, with three splits, text columns and a class index."""

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from isoscope.errors import InputError

SPLITS = ("train", "validation", "test")
SINGLE = ("sentence",)
PAIR = ("sentence1", "sentence2")
TREEBANK = "treebank.parquet"
"""File of a task's own treebank, beside its splits."""


class Corpus(NamedTuple):
    """A labelled text classification task.

    `splits`: exactly `train`, `validation` and `test`, each a table with `sentence` (or `sentence1`, `sentence2`) as
    strings and `label` as int64 in 0..C-1. `labels`: names of class 0, 1, …. `facts`: statements of the source about
    itself (such as a Bayes ceiling), copied to the manifest. `trees`: a treebank of its sentences, if known (see
    `treebank.read`).
    """

    splits: dict[str, pa.Table]
    labels: tuple[str, ...]
    source: str
    licence: str
    revision: str | None
    facts: dict[str, object]
    trees: pa.Table | None = None


def text_columns(table: pa.Table) -> tuple[str, ...]:
    """Return the names of the text columns of `table`: `("sentence",)` or `("sentence1", "sentence2")`.

    Raises `InputError` if neither set is complete or both are present.
    """
    names = set(table.column_names)
    if set(SINGLE) <= names and not set(PAIR) & names:
        return SINGLE
    if set(PAIR) <= names and not set(SINGLE) & names:
        return PAIR
    raise InputError(
        f"text columns: expected 'sentence', or 'sentence1' and 'sentence2', found {sorted(names - {'label'})}"
    )


def texts(table: pa.Table) -> list[tuple[str, ...]]:
    """Return the text of each row: `(sentence,)` or `(sentence1, sentence2)`."""
    return list(zip(*(table[column].to_pylist() for column in text_columns(table)), strict=True))


def check(corpus: Corpus) -> None:
    """Check that a classifier can be trained and evaluated on a corpus.

    Raises `InputError` (one line) for a missing split or column, an empty split, a null text or label, a split with a
    single class, a label in validation or test that train lacks, and labels that are not 0..C-1 with a name each.
    """
    where = corpus.source
    if set(corpus.splits) != set(SPLITS):
        raise InputError(
            f"{where}: splits must be {', '.join(SPLITS)}; found {', '.join(sorted(corpus.splits)) or 'none'}"
        )
    expected: tuple[str, ...] | None = None
    for split in SPLITS:
        table, place = corpus.splits[split], f"{where}: {split}"
        try:
            found = text_columns(table)
        except InputError as error:
            raise InputError(f"{place}: {error}") from None
        if expected is not None and found != expected:
            raise InputError(f"{place}: text columns {', '.join(found)}, while train has {', '.join(expected)}")
        expected = found
        if "label" not in table.column_names:
            raise InputError(f"{place}: column 'label' is missing; found {', '.join(table.column_names)}")
        if table.num_rows == 0:
            raise InputError(f"{place}: the split is empty; give it rows, or hold it out from train")
        for column in (*found, "label"):
            _check_column(table, column, place)
    _check_labels(corpus)


def _check_column(table: pa.Table, column: str, place: str) -> None:
    values = table[column]
    wanted = pa.int64() if column == "label" else pa.string()
    if values.type != wanted:
        raise InputError(f"{place}: column {column!r} is {values.type}; expected {wanted}")
    if values.null_count:
        row = pc.index(pc.is_null(values), True).as_py() + 1
        raise InputError(f"{place}, row {row}: {column!r} is null ({values.null_count} in all); fill or drop the row")


def _check_labels(corpus: Corpus) -> None:
    where, names = corpus.source, corpus.labels
    train = set(corpus.splits["train"]["label"].unique().to_pylist())
    for split in SPLITS:
        column = corpus.splits[split]["label"]
        found = column.unique().to_pylist()
        unseen = sorted(set(found) - train)
        if unseen:
            row = pc.index(column, unseen[0]).as_py() + 1
            raise InputError(f"{where}: {split}, row {row}: label {_name(names, unseen[0])} does not occur in train")
        if len(found) == 1:
            only = _name(names, found[0])
            raise InputError(f"{where}: {split} has only one class ({only}); a classifier needs two or more")
    if train != set(range(len(names))):
        raise InputError(
            f"{where}: train labels must be 0..{len(names) - 1}, one per class name; found {sorted(train)} for "
            f"{len(names)} names"
        )
    if len(set(names)) != len(names):
        raise InputError(f"{where}: class names repeat: {', '.join(names)}")


def _name(names: tuple[str, ...], label: int) -> str:
    return repr(names[label]) if 0 <= label < len(names) else str(label)
