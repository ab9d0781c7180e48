"""Read a user's sentences with their translations."""

from pathlib import Path
from typing import NamedTuple

from isoscope.data.files import read_file
from isoscope.errors import InputError


class Pairs(NamedTuple):
    """Sentences, and their references or None."""

    sources: list[str]
    references: list[str] | None


def read_pairs(path: Path, *, column: str, references: str | None, sentences: int | None) -> Pairs:
    """Read the first `sentences` rows (None: all) of a parquet, csv, tsv or jsonl file.

    Raises `InputError` for a column that the file lacks, and for an empty cell.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    wanted = [column, *([] if references is None else [references])]
    table = read_file(path, texts=wanted, label=None).table
    if lacking := [name for name in wanted if name not in table.column_names]:
        raise InputError(f"{path}: no column {lacking[0]!r}; there are: {', '.join(table.column_names)}")
    found = [[*map(str, table[name].to_pylist()[:sentences])] for name in wanted]
    for name, texts in zip(wanted, found, strict=True):
        if empty := [row for row, text in enumerate(texts, 1) if text in ("None", "")]:
            raise InputError(f"{path}, row {empty[0]}: column {name!r} is empty")
    if not found[0]:
        raise InputError(f"{path}: no rows")
    return Pairs(found[0], found[1] if references is not None else None)
