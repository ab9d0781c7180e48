"""Read tables of text, with labels or without, from parquet, csv, tsv and jsonl files, and JSON, strictly UTF-8."""

import hashlib
import json
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from isoscope.base.errors import InputError
from isoscope.data.delimited import read_delimited
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
_TEXT = (pa.string(), pa.large_string(), pa.string_view(), pa.null())


class Raw(NamedTuple):
    """A split of a source: its place (for errors), table, and sha256 of its file."""

    place: str
    table: pa.Table
    sha256: str | None = None


def read_file(path: Path, wanted: Collection[str], *, label: str | None = None) -> Raw:
    """Read the columns `wanted` of a file, if present; in jsonl only the column `label` may hold numbers.

    For csv and tsv see `read_delimited`. Raises `InputError` with file and row or line for a file that does not match
    its suffix or is not UTF-8.
    """
    extension = path.suffix.removeprefix(".")
    if extension not in EXTENSIONS:
        cure = f"; {CURES[extension]}" if extension in CURES else ""
        raise InputError(f"{path}: unknown format; expected a name ending in {', '.join(EXTENSIONS)}{cure}")
    try:
        data = path.read_bytes()
        if extension == "parquet":
            table = _parse_parquet(data, path, wanted)
        else:
            check_utf8(data, path)
            jsonl = extension == "jsonl"
            table = _parse_jsonl(data, path, wanted, label) if jsonl else read_delimited(data, path, wanted)
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: not valid {extension}: {str(error).splitlines()[0]}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {str(error.strerror or error).splitlines()[0]}") from None
    return Raw(str(path), table, hashlib.sha256(data).hexdigest())


def _parse_parquet(data: bytes, path: Path, wanted: Collection[str]) -> pa.Table:
    schema = pq.read_schema(pa.BufferReader(data))
    if not {*wanted} <= {*schema.names}:
        return schema.empty_table()
    # Repeated texts stay together until their length is known: a file of some bytes may hold terabytes.
    flat = [name for name in wanted if not pa.types.is_nested(schema.field(name).type)]
    with pq.ParquetFile(pa.BufferReader(data), read_dictionary=flat) as file:
        _check_size(path, file.metadata.num_rows * 4)
        table = file.read(columns=sorted({*wanted}))
    _check_size(path, sum(_unpacked(chunk) for column in table.columns for chunk in column.chunks))
    return table


def _check_size(path: Path, size: int) -> None:
    if size > MOST_BYTES:
        large = f"{size / 1e9:,.1f} GB, more than {MOST_BYTES / 1e9:.1f} GB"
        raise InputError(f"{path}: its texts have {large}, when unpacked; give a file with fewer rows")


def _unpacked(chunk: pa.Array) -> int:
    """Return the bytes of a column's texts when each row has its own."""
    if not pa.types.is_dictionary(chunk.type) or not len(chunk):
        return int(chunk.nbytes)
    return pc.sum(pc.take(pc.binary_length(chunk.dictionary), chunk.indices)).as_py() or 0


def _parse_jsonl(data: bytes, path: Path, wanted: Collection[str], label: str | None) -> pa.Table:
    """Parse one JSON object per line. Arrow's parser would convert dates to timestamps and name no line."""
    values: dict[str, list[str | None]] = {name: [] for name in wanted}
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


def strings(raw: Raw, name: str, named: str, *, classes: bool = False) -> pa.ChunkedArray:
    """Return a column as text, nulls included; a column of `classes` may hold numbers, too.

    `named`: what names the column, for errors. Raises `InputError` if it is missing or repeats, and if it holds
    something else or other bytes than UTF-8.
    """
    names = raw.table.column_names
    if names.count(name) != 1:
        fault = f"column {name!r} repeats" if name in names else f"no column {name!r} ({named})"
        there = ", ".join(one if one == one.strip() != "" else repr(one) for one in names) or "none"
        close = [one for one in names if one.strip().casefold() == name.strip().casefold() != one]
        cure = f"; did you mean {close[0]!r}?" if close else ""
        raise InputError(f"{raw.place}: {fault}; there are: {there}{cure}")
    values = raw.table[name]
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    if kind in _TEXT:
        _check_bytes(values, f"column {name!r}", raw.place)
    elif not (classes and (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))):
        wanted = "one class per row: an integer, or text" if classes else "text"
        raise InputError(f"{raw.place}: column {name!r} holds {kind}; expected {wanted}")
    if pa.types.is_floating(kind):  # pandas writes a missing label as NaN, and then the others as 0.0 and 1.0
        values = pc.if_else(pc.is_nan(values), None, values)
    return values.cast(pa.string())


def _check_bytes(values: pa.ChunkedArray, column: str, place: str) -> None:
    """Check that text is UTF-8, because Arrow reads any bytes from parquet unchecked."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        for row, value in enumerate(values.cast(pa.large_binary()).to_pylist(), start=1):
            try:
                (value or b"").decode("utf-8")
            except UnicodeDecodeError as error:
                raise InputError(f"{place}, row {row}: {column} is not UTF-8 ({error.reason})") from None
        raise


def read_splits(path: Path, *, columns: Mapping[str, str], splits: Mapping[str, str | None]) -> dict[str, Raw]:
    """Read the splits at `path`, a file (parquet, csv, tsv, jsonl) or a folder of such files, one per split.

    `columns` maps `sentence` (or `sentence1`, `sentence2`) and `label`, if any, to the file's names. In a folder,
    `splits` maps train, validation and test to file stems (`dev` for `dev.csv`); null is no file. A single file is all
    train, so its validation and test must be null. Raises `InputError` with file, row or line.
    """
    read = partial(read_file, wanted=[*columns.values()], label=columns.get("label"))
    if path.is_file():
        for split in ("validation", "test"):
            if splits.get(split) is not None:
                raise InputError(
                    f"splits.{split}: {path} is a single file, which is all train; set null to hold {split} out"
                )
        return {"train": read(path)}
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder")
    return {split: read(_find(path, stem, split)) for split, stem in splits.items() if stem is not None}


def _find(folder: Path, stem: str, split: str) -> Path:
    found = [file for extension in EXTENSIONS if (file := folder / f"{stem}.{extension}").is_file()]
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
