"""Files of text in every format that is read, and tasks read from them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.base.errors import InputError
from isoscope.data import task_files
from isoscope.data.corpus import Corpus

FORMATS = ("parquet", "csv", "tsv", "jsonl")
ALONE = {"train": "train", "validation": None, "test": None}
SAME = dict.fromkeys(ALONE, "train")
"""All splits are one file of a folder."""
LABELLED = {"sentence": "text", "label": "class"}
SETTINGS = {"held_out": 0.25, "seed": 0, "licence": "CC0-1.0"}


def write(path: Path, columns: Mapping[str, Sequence[Any]]) -> Path:
    """Write columns in the format of the file name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.table(dict(columns)), path)
        return path
    rows = list(zip(*columns.values(), strict=True))
    if path.suffix == ".jsonl":
        lines = [json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows]
    elif path.suffix == ".csv":
        cells = [[f'"{cell.replace(chr(34), 2 * chr(34))}"' if isinstance(cell, str) else str(cell) for cell in row]
                 for row in rows]  # fmt: skip
        lines = [",".join(row) for row in [[*columns], *cells]]
    else:
        lines = ["\t".join(map(str, row)) for row in [[*columns], *rows]]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def read(
    path: Path, splits: Mapping[str, str | None] = ALONE, columns: Mapping[str, str] = LABELLED, **changes: Any
) -> Corpus:
    """Read a file, or a folder, as a task."""
    source = {"kind": "local", "path": path.name, "columns": columns, "splits": splits}
    return task_files.read(source | SETTINGS | changes, path.parent)


def refusal(path: Path, *given: Any) -> str:
    """Return the one line that refuses a task."""
    with pytest.raises(InputError) as caught:
        read(path, *given)
    assert "\n" not in str(caught.value)
    return str(caught.value)
