"""Corpus: the common form of every data set, with three splits, text columns and, if it has classes, a class index.

`build` makes a corpus of raw tables: it renames columns, numbers labels and holds out missing splits from train.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from isoscope.base.errors import InputError
from isoscope.data.classes import INTEGER, in_order, read_classes
from isoscope.data.files import Raw, strings

SPLITS = ("train", "validation", "test")
SINGLE = ("sentence",)
PAIR = ("sentence1", "sentence2")
TREEBANK = "treebank.parquet"
"""File of a task's own treebank, beside its splits."""


class Corpus(NamedTuple):
    """A labelled text classification task, or a text task, which has no labels.

    `splits`: exactly `train`, `validation` and `test`, each a table with `sentence` (or `sentence1`, `sentence2`) as
    strings and `label` as int64 in 0..C-1. `labels`: names of class 0, 1, …. A text task has no column `label`, and
    `labels` is empty; the columns of a pair are source and target language. `facts`: statements of the source about
    itself (such as a Bayes ceiling), copied to the manifest. `trees`: a treebank of its sentences, if known (see
    `treebank.read`). `notes`: sentences about labels that may be mistakes.
    """

    splits: dict[str, pa.Table]
    labels: tuple[str, ...]
    source: str
    licence: str
    revision: str | None
    facts: dict[str, object]
    trees: pa.Table | None = None
    notes: tuple[str, ...] = ()


def text_columns(table: pa.Table) -> tuple[str, ...]:
    """Return the names of the text columns of `table`: `("sentence",)` or `("sentence1", "sentence2")`."""
    return PAIR if PAIR[0] in table.column_names else SINGLE


def texts(table: pa.Table) -> list[tuple[str, ...]]:
    """Return the text of each row: `(sentence,)` or `(sentence1, sentence2)`."""
    return list(zip(*(table[column].to_pylist() for column in text_columns(table)), strict=True))


def build(
    raw: Mapping[str, Raw],
    *,
    columns: Mapping[str, str],
    held_out: float,
    seed: int,
    source: str,
    licence: str,
    revision: str | None = None,
) -> Corpus:
    """Make a corpus of the splits in `raw`; a missing split is held out from train.

    `columns` maps `sentence` (or `sentence1`, `sentence2`) and `label` to the names in the source; without `label` the
    corpus is a text task. Labels that all are integers keep their numeric order, others are sorted. `held_out` is the
    fraction of train each missing split takes.
    The corpus' facts name what was held out, and the sha256 of the files read.
    Raises `InputError` for invalid input; it names file, row and column.
    """
    if set(columns) - {"label"} not in ({*SINGLE}, {*PAIR}):
        raise InputError(
            "columns: expected sentence and label, or sentence1, sentence2 and label (a text task has no label); got "
            f"{sorted(columns)}"
        )
    if len(set(columns.values())) < len(columns):
        raise InputError(f"columns: each must name a different column; got {', '.join(columns.values())}")
    splits = {split: _rename(raw[split], columns) for split in SPLITS if split in raw}
    labels, notes = _number(splits, raw, columns["label"]) if "label" in columns else ((), ())
    names = _class_names(raw["train"].table.schema, columns.get("label"))
    if names is not None and all(INTEGER.fullmatch(label) and 0 <= int(label) < len(names) for label in labels):
        labels = tuple(names[int(label)] for label in labels)
    if missing := [split for split in SPLITS if split not in splits]:
        splits |= hold_out(splits, missing, fraction=held_out, seed=seed, source=source, names=labels)
    if labels:
        _check_classes(splits, labels, source)
    facts: dict[str, object] = {"held_out": dict.fromkeys(missing, held_out)}
    if inputs := {Path(one.place).name: one.sha256 for one in raw.values() if one.sha256 is not None}:
        facts["inputs"] = inputs
    tables = {split: splits[split].combine_chunks() for split in SPLITS}
    return Corpus(tables, labels, source, licence, revision, facts, notes=notes)


def _class_names(schema: pa.Schema, column: str | None) -> tuple[str, ...] | None:
    """Return the class names that the library `datasets` stored in an Arrow schema's metadata, or None."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return tuple(features[column]["names"])
    except (KeyError, TypeError, ValueError):
        return None


def _check_classes(splits: Mapping[str, pa.Table], labels: Sequence[str], source: str) -> None:
    """Check that every split has two classes or more, and that names of classes differ."""
    for split in SPLITS:
        if len(found := splits[split]["label"].unique()) == 1:
            only = labels[found[0].as_py()]
            raise InputError(f"{source}: {split} has only one class ({only!r}); a classifier needs two or more")
    if len(set(labels)) != len(labels):
        raise InputError(f"{source}: class names repeat: {', '.join(labels)}")


def _rename(raw: Raw, columns: Mapping[str, str]) -> pa.Table:
    """Return `raw.table` with our columns only: text and label (numbered later) as strings, without nulls."""
    arrays: dict[str, pa.ChunkedArray] = {}
    for ours in (one for one in (*SINGLE, *PAIR, "label") if one in columns):
        values = strings(raw, columns[ours], f"for {ours}", classes=ours == "label")
        if values.null_count:
            row = pc.index(pc.is_null(values), True).as_py() + 1
            raise InputError(
                f"{raw.place}, row {row}: column {columns[ours]!r} is null ({values.null_count} in all); fill or drop "
                "the row"
            )
        arrays[ours] = values
    if not raw.table.num_rows:
        raise InputError(
            f"{raw.place}: no rows; add rows (or set validation or test to null, to hold it out from train)"
        )
    return pa.table(arrays)


def _number(
    splits: dict[str, pa.Table], raw: Mapping[str, Raw], column: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Replace the label texts in `splits` by class numbers, in place; return the classes of train, and notes."""
    written = {split: table["label"].to_pylist() for split, table in splits.items()}
    names, notes = read_classes({label for own in written.values() for label in own}, raw["train"].place, column)
    classes = in_order({names[label] for label in written["train"]})
    index = {name: number for number, name in enumerate(classes)}
    for split, table in splits.items():
        numbers = [index.get(names[label]) for label in written[split]]
        if None in numbers:
            row = numbers.index(None)
            raise InputError(
                f"{raw[split].place}, row {row + 1}: label {written[split][row]!r} does not occur in train "
                f"({', '.join(classes[:10])})"
            )
        splits[split] = table.set_column(table.column_names.index("label"), "label", pa.array(numbers, pa.int64()))
    return tuple(classes), notes


def hold_out(
    splits: Mapping[str, pa.Table],
    missing: Sequence[str],
    *,
    fraction: float,
    seed: int,
    source: str,
    names: Sequence[str] = (),
) -> dict[str, pa.Table]:
    """Return tables for `missing` and a smaller `train`: each missing split takes `fraction` of each class of train.

    The rows of a text task are drawn as if they had one class.

    Rows are drawn by sha256 of (seed, split, text), so the draw depends only on these and the quota. Rows with equal
    text stay together, and a text that also occurs in a given split stays in train, so the draw adds no duplicates
    across splits. Raises `InputError` if the fraction leaves a class without rows on one side; `names`: of the classes.
    """
    train = splits["train"]
    if not 0 < fraction * len(missing) < 1:
        raise InputError(
            f"held_out: {fraction} of train for each of {', '.join(missing)}: must leave rows on both sides"
        )
    labels = train["label"].to_pylist() if "label" in train.column_names else [0] * train.num_rows
    groups: dict[tuple[str, ...], list[int]] = {}
    for row, text in enumerate(texts(train)):
        groups.setdefault(text, []).append(row)
    given = {text for split, table in splits.items() if split != "train" for text in texts(table)}
    free = {text: rows for text, rows in groups.items() if text not in given}
    sizes = Counter(labels)
    drawn: dict[str, list[int]] = {}
    for split in missing:
        quota = Counter({label: max(1, round(fraction * size)) for label, size in sizes.items()})
        drawn[split] = []
        for text in sorted(free, key=lambda text: _digest(str(seed), split, *text)):
            needed = Counter(labels[row] for row in free[text])
            if needed <= quota:
                quota -= needed
                drawn[split] += free.pop(text)
    gone = {row for rows in drawn.values() for row in rows}
    drawn["train"] = [row for row in range(len(labels)) if row not in gone]
    for rows in drawn.values():
        if short := sorted(set(sizes) - {labels[row] for row in rows}):
            whole = f"class {names[short[0]]!r}" if names else "train"
            different = sum(any(labels[row] == short[0] for row in same) for same in groups.values())
            raise InputError(
                f"{source}: {whole} has {sizes[short[0]]} rows with {different} different texts, but train and each "
                "split that is held out need a text of their own; add rows, merge small classes, or give each split a "
                "file"
            )
    return {split: train.take(sorted(rows)) for split, rows in drawn.items()}


def _digest(*parts: str) -> bytes:
    return hashlib.sha256("\x1f".join(parts).encode()).digest()
