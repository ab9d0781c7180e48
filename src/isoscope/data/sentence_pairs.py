"""Read a user's sentences with their translations."""

from pathlib import Path
from typing import NamedTuple

from isoscope.base.errors import InputError
from isoscope.data.corpus import Raw
from isoscope.data.files import read_file
from isoscope.data.plain import strings


class Pairs(NamedTuple):
    """Sentences, and their references or None."""

    sources: list[str]
    references: list[str] | None


def read_pairs(path: Path, *, column: str, references: str | None, sentences: int | None) -> Pairs:
    """Read the first `sentences` rows (None: all) of a parquet, csv, tsv or jsonl file.

    Raises `InputError` for a column that the file lacks, and for an empty cell.
    """
    wanted = [column, *([] if references is None else [references])]
    raw = read_file(path, texts=wanted, label=None)
    found = [_texts(raw, name)[:sentences] for name in wanted]
    if not found[0]:
        raise InputError(f"{path}: no rows")
    return Pairs(found[0], found[1] if references is not None else None)


def _texts(raw: Raw, name: str) -> list[str]:
    """Return a column's texts. Raises `InputError` for an empty cell."""
    texts = strings(raw, name)
    if empty := [row for row, text in enumerate(texts, 1) if not (text or "").strip()]:
        raise InputError(f"{raw.place}, row {empty[0]}: column {name!r} is empty")
    return [str(text) for text in texts]
