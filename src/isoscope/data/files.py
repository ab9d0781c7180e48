"""Read tables of text, with labels or without, from parquet, csv, tsv and jsonl files, and JSON, strictly UTF-8."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from isoscope.base.errors import InputError
from isoscope.data.corpus import Corpus, Raw, build
from isoscope.data.delimited import CSV, TSV, read_delimited
from isoscope.data.encoding import check_utf8

EXTENSIONS = ("parquet", "csv", "tsv", "jsonl")
CURES = {
    **dict.fromkeys(("xlsx", "xls", "ods"), "save the sheet as CSV (UTF-8)"),
    "json": "write one object per line, and name the file .jsonl",
    "txt": "add a first line with the column's name, text, and name the file .tsv",
    **dict.fromkeys(("gz", "zip", "bz2", "xz", "zst"), "decompress it"),
}
"""Suffix of another format → what to do."""
MOST_BYTES = (1 << 31) - 1
"""Bytes of the texts of a file: Arrow's limit of a block."""


def read_file(path: Path, *, texts: Sequence[str], label: str | None) -> Raw:
    """Read the columns `texts` and `label` of a file, if present; `label` None: of a text task.

    For csv and tsv see `read_delimited`. A parquet file may have class names in the metadata of the library `datasets`.
    Raises `InputError` with file and row or line for a file that does not match its suffix or is not UTF-8.
    """
    extension = path.suffix.removeprefix(".")
    if extension not in EXTENSIONS:
        cure = f"; {CURES[extension]}" if extension in CURES else ""
        raise InputError(f"{path}: unknown format; expected a name ending in {', '.join(EXTENSIONS)}{cure}")
    try:
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if extension == "parquet":
            return Raw(str(path), *_parse_parquet(data, path, texts, label), digest)
        check_utf8(data, path)
        table = (
            _parse_jsonl(data, path, texts, label)
            if extension == "jsonl"
            else read_delimited(data, path, _wanted(texts, label), TSV if extension == "tsv" else CSV)
        )
        return Raw(str(path), table, None, digest)
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: not valid {extension}: {str(error).splitlines()[0]}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {str(error.strerror or error).splitlines()[0]}") from None


def _wanted(texts: Sequence[str], label: str | None) -> list[str]:
    return [*texts] if label is None else [*texts, label]


def class_names(schema: pa.Schema, column: str) -> tuple[str, ...] | None:
    """Return the class names that the library `datasets` stored in an Arrow schema's metadata, or None."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return tuple(features[column]["names"])
    except (KeyError, TypeError, ValueError):
        return None


def _parse_parquet(
    data: bytes, path: Path, texts: Sequence[str], label: str | None
) -> tuple[pa.Table, tuple[str, ...] | None]:
    wanted = sorted(set(_wanted(texts, label)))
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        schema = file.schema_arrow
    if not set(wanted) <= set(schema.names):
        return schema.empty_table(), None
    # Repeated texts stay together until their length is known: a file of some bytes may hold terabytes.
    repeated = [name for name in wanted if _is_text(schema.field(name).type)]
    with pq.ParquetFile(pa.BufferReader(data), read_dictionary=repeated) as file:
        _check_size(path, file.metadata.num_rows * 4)
        table = file.read(columns=wanted)
    _check_size(path, sum(_unpacked(chunk) for column in table.columns for chunk in column.chunks))
    table = table.cast(pa.schema([schema.field(name) for name in table.column_names]))
    return table, None if label is None else class_names(schema, label)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind))


def _check_size(path: Path, size: int) -> None:
    if size > MOST_BYTES:
        large = f"{size / 1e9:,.1f} GB, more than {MOST_BYTES / 1e9:.1f} GB"
        raise InputError(f"{path}: its texts have {large}, when unpacked; give a file with fewer rows")


def _unpacked(chunk: pa.Array) -> int:
    """Return the bytes of a column's texts when each row has its own."""
    if not pa.types.is_dictionary(chunk.type) or not len(chunk):
        return int(chunk.nbytes)
    return pc.sum(pc.take(pc.binary_length(chunk.dictionary), chunk.indices)).as_py() or 0


def _parse_jsonl(data: bytes, path: Path, texts: Sequence[str], label: str | None) -> pa.Table:
    """Parse one JSON object per line. Arrow's parser would convert dates to timestamps and name no line."""
    values: dict[str, list[str | None]] = {name: [] for name in _wanted(texts, label)}
    seen: set[str] = set()
    for number, line in enumerate(data.decode("utf-8-sig").split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        row = parse_json(line, place)
        if not isinstance(row, dict):
            raise InputError(f"{place}: expected one object per line, found {type(row).__name__}")
        seen |= row.keys()
        for name, column in values.items():
            column.append(_cell(row.get(name), f"{place}: {name!r}", is_label=name == label))
    if not values.keys() <= seen:
        return pa.schema([(name, pa.string()) for name in sorted(seen)]).empty_table()
    return pa.table({name: pa.array(column, pa.string()) for name, column in values.items()})


def _cell(value: object, place: str, *, is_label: bool) -> str | None:
    if is_label and (isinstance(value, int) or (isinstance(value, float) and value.is_integer())):
        return str(value).lower()  # true and false as Arrow spells them
    if value is None:
        return None
    if not isinstance(value, str):
        wanted = "an integer or text" if is_label else "text"
        raise InputError(f"{place} is {json.dumps(value)[:40]}; expected {wanted}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{place} contains an unpaired surrogate, which is not a character") from None
    return value


def read(
    path: Path,
    *,
    columns: Mapping[str, str],
    splits: Mapping[str, str | None],
    held_out: float,
    seed: int,
    licence: str,
) -> Corpus:
    """Read the corpus at `path`, a file (parquet, csv, tsv, jsonl) or a folder of such files, one per split.

    `columns` maps `sentence` (or `sentence1`, `sentence2`) and `label`, if any, to the file's names. In a folder,
    `splits` maps train, validation and test to file stems (`dev` for `dev.csv`); null holds the split out from train. A
    single file is all train, so its validation and test must be null. The corpus' source is the name without folders,
    which differ between machines. Raises `InputError` with file, row and column.
    """
    raw = read_splits(Path(path), columns=columns, splits=splits)
    return build(raw, columns=columns, held_out=held_out, seed=seed, source=f"local:{Path(path).name}", licence=licence)


def read_splits(path: Path, *, columns: Mapping[str, str], splits: Mapping[str, str | None]) -> dict[str, Raw]:
    """Return raw tables of the splits with files at `path`; arguments as in `read`."""
    label = columns.get("label")
    texts = [theirs for ours, theirs in columns.items() if ours != "label"]
    if path.is_file():
        for split in ("validation", "test"):
            if splits.get(split) is not None:
                raise InputError(
                    f"splits.{split}: {path} is a single file, which is all train; set null to hold {split} out"
                )
        return {"train": read_file(path, texts=texts, label=label)}
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder")
    return {
        split: read_file(_find(path, stem, split), texts=texts, label=label)
        for split, stem in splits.items()
        if stem is not None
    }


def _find(folder: Path, stem: str, split: str) -> Path:
    if stem in ("", "..") or "\0" in stem or Path(stem).name != stem:
        raise InputError(f"splits.{split}: {stem!r} is not a file name without suffix; give a file of {folder}")
    found = [folder / f"{stem}.{extension}" for extension in EXTENSIONS if (folder / f"{stem}.{extension}").is_file()]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{folder}: splits.{split}: {' and '.join(file.name for file in found)} both match; keep one")
    there = ", ".join(sorted(file.name for file in folder.iterdir())[:10]) or "nothing"
    raise InputError(f"{folder}: splits.{split}: no {stem}.{{{','.join(EXTENSIONS)}}}; the folder holds {there}")


def parse_json(text: str, place: str) -> Any:
    """Return the data in JSON text. Raises `InputError` that starts with `place`."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise InputError(f"{place}: not JSON: {error.msg} at {line}column {error.colno}") from None
    except RecursionError:
        raise InputError(f"{place}: JSON nested too deeply; flatten it") from None
    except ValueError as error:  # an integer with thousands of digits
        raise InputError(f"{place}: not JSON: {error}") from None


def read_mapping(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file. Raises `InputError` if there is no file or no object in it."""
    if not path.is_file():  # a fifo would block
        raise InputError(f"{path}: no such file")
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not JSON: byte {error.start} is not UTF-8") from None
    found = parse_json(text, str(path))
    if not isinstance(found, dict):
        raise InputError(f"{path}: expected a JSON object, got {type(found).__name__}")
    return found
