"""Sentences of a user's own, with or without classes, as one table."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from isoscope.corpora.files import EXTENSIONS, check_utf8, read_file
from isoscope.errors import InputError

USUAL = ("sentence", "text")


class Texts(NamedTuple):
    """A table with `sentence` and, where there are classes, `label` (0 … C − 1); their names; sha256 of the file."""

    table: pa.Table
    classes: tuple[str, ...]
    sha256: str


def read_texts(path: Path, *, column: str | None, labels: str | None) -> Texts:
    """Sentences from a parquet, csv, tsv or jsonl file, or from a .txt file with one a line; empty ones are left out.

    `column`: the text's (`sentence` or `text`, if none is named); `labels`: that of the classes, any text or integer.
    Raises `InputError` naming file, row and column.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if path.suffix == ".txt":
        if labels is not None:
            raise InputError(
                f"--labels {labels}: {path} is plain text and has no columns; give csv, tsv, jsonl or parquet"
            )
        return _lines(path)
    found = None
    for name in [column] if column else USUAL:
        raw = read_file(path, texts=[name], label=labels or name)
        if {name, labels or name} <= set(raw.table.column_names):
            found = name
            break
    if found is None:
        there = ", ".join(raw.table.column_names) or f"none; a .txt file or one of {', '.join(EXTENSIONS)} is expected"
        wanted = " and ".join([repr(column) if column else "'sentence' or 'text'", *([repr(labels)] if labels else [])])
        raise InputError(f"{path}: no column {wanted}; there are: {there}")
    sentences = [(text or "").strip() for text in raw.table[found].cast(pa.string()).to_pylist()]
    kept = [row for row, text in enumerate(sentences) if text]
    table = {"sentence": [sentences[row] for row in kept]}
    classes: tuple[str, ...] = ()
    if labels is not None:
        values = raw.table[labels].cast(pa.string()).to_pylist()
        if lacking := [row for row in kept if values[row] is None]:
            raise InputError(f"{path}, row {lacking[0] + 1}: column {labels!r} is empty; fill it or drop the row")
        classes = tuple(sorted({values[row] for row in kept}))
        if len(classes) < 2:
            raise InputError(f"{path}: column {labels!r} has one value only; classes need two or more")
        index = {name: number for number, name in enumerate(classes)}
        return Texts(pa.table({**table, "label": [index[values[row]] for row in kept]}), classes, raw.sha256 or "")
    return Texts(pa.table(table), classes, raw.sha256 or "")


def _lines(path: Path) -> Texts:
    data = path.read_bytes()
    check_utf8(data, path)
    lines = [line.strip() for line in data.decode("utf-8-sig").splitlines()]
    return Texts(pa.table({"sentence": [line for line in lines if line]}), (), hashlib.sha256(data).hexdigest())
