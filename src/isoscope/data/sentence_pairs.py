"""Read a user's sentences with their translations."""

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from isoscope.base.errors import InputError
from isoscope.data.files import read_file


class Pairs(NamedTuple):
    """Sentences, and their references or None."""

    sources: list[str]
    references: list[str] | None


def read_pairs(path: Path, *, column: str, references: str | None, sentences: int | None) -> Pairs:
    """Read the first `sentences` rows (None: all) of a parquet, csv, tsv or jsonl file.

    Raises `InputError` for a column that the file lacks, and for an empty cell.
    """
    wanted = [column, *([] if references is None else [references])]
    table = read_file(path, texts=wanted, label=None).table
    if lacking := [name for name in wanted if name not in table.column_names]:
        raise InputError(f"{path}: no column {lacking[0]!r}; there are: {', '.join(table.column_names)}")
    found = [_texts(path, name, table[name])[:sentences] for name in wanted]
    if not found[0]:
        raise InputError(f"{path}: no rows")
    return Pairs(found[0], found[1] if references is not None else None)


def _texts(path: Path, name: str, column: pa.ChunkedArray) -> list[str]:
    """Return a column's texts. Raises `InputError` if it is not text, and for an empty cell."""
    if pa.types.is_nested(column.type):
        raise InputError(f"{path}: column {name!r} holds lists ({column.type}), not texts")
    texts: list[str | None] = column.cast(pa.string()).to_pylist()
    if empty := [row for row, text in enumerate(texts, 1) if not (text or "").strip()]:
        raise InputError(f"{path}, row {empty[0]}: column {name!r} is empty")
    return [str(text) for text in texts]
