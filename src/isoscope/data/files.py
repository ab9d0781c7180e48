"""Read tables of text, with a target or without, from parquet, csv, tsv, jsonl and txt files, and JSON, as UTF-8."""

import hashlib
import io
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from isoscope.base.atomic_files import sha256
from isoscope.base.errors import InputError, said
from isoscope.data.delimited import read_delimited
from isoscope.data.encoding import check_utf8

EXTENSIONS = ("parquet", "csv", "tsv", "jsonl", "txt")
CURES = {
    **dict.fromkeys(("xlsx", "xls", "ods"), "save the sheet as CSV (UTF-8)"),
    "json": "write one object per line, and name the file .jsonl",
    **dict.fromkeys(("gz", "zip", "bz2", "xz", "zst"), "decompress it"),
}
"""Suffix of another format → what to do."""
SAVED = ("dataset_dict.json", "state.json")
"""Files that mark a folder of `datasets.save_to_disk`."""
MOST_BYTES = (1 << 31) - 1
"""Bytes of the texts of a file: Arrow's limit of a block."""


class Raw(NamedTuple):
    """A split of a source: its place (for errors), table, and the sha256 of its files by their names in the source."""

    place: str
    table: pa.Table
    inputs: Mapping[str, str] = MappingProxyType({})


def read_file(path: Path, wanted: Collection[str], **kinds: str | None) -> Raw:
    """Read the columns `wanted` of a file, if present.

    `kinds`: columns that in jsonl may hold something else than text, by `label` and `group` (integers), `score`
    (numbers) and `labels` (lists). For csv and tsv see `read_delimited`. A txt file has the column `text`, one text per
    line without empty lines. Raises `InputError` with file and row or line for a file that does not match its suffix or
    is not UTF-8.
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
            if extension == "jsonl":
                table = _parse_jsonl(data, path, wanted, {name: kind for kind, name in kinds.items() if name})
            elif extension == "txt":
                lines = io.StringIO(data.decode("utf-8-sig"), newline=None)
                table = pa.table({"text": pa.array(filter(None, map(str.strip, lines)), pa.string())})
            else:
                table = read_delimited(data, path, wanted)
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: not valid {extension}: {str(error).splitlines()[0]}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {str(error.strerror or error).splitlines()[0]}") from None
    return Raw(str(path), table, {path.name: hashlib.sha256(data).hexdigest()})


def _parse_parquet(data: bytes, path: Path, wanted: Collection[str]) -> pa.Table:
    schema = pq.read_schema(pa.BufferReader(data))
    if not {*wanted} <= {*schema.names}:
        return schema.empty_table()
    check_names(path, [name for name in schema.names if name in wanted])
    # Repeated texts stay together until their length is known: a file of some bytes may hold terabytes.
    flat = [name for name in wanted if not pa.types.is_nested(schema.field(name).type)]
    with pq.ParquetFile(pa.BufferReader(data), read_dictionary=flat) as file:
        _check_size(path, file.metadata.num_rows * 4)
        table = file.read(columns=sorted({*wanted}))
    _check_size(path, sum(_unpacked(chunk) for column in table.columns for chunk in column.chunks))
    return table


def check_names(path: Path, names: Sequence[str]) -> None:
    """Raise `InputError` if two columns of a file have one name."""
    if repeated := [name for place, name in enumerate(names) if name in names[:place]]:
        raise InputError(f"{path}: column {repeated[0]!r} repeats; give each column a name of its own")


def _check_size(path: Path, size: int) -> None:
    if size > MOST_BYTES:
        large = f"{size / 1e9:,.1f} GB, more than {MOST_BYTES / 1e9:.1f} GB"
        raise InputError(f"{path}: its texts have {large}, when unpacked; give a file with fewer rows")


def _unpacked(chunk: pa.Array) -> int:
    """Return the bytes of a column's texts when each row has its own."""
    if not pa.types.is_dictionary(chunk.type) or not len(chunk):
        return int(chunk.nbytes)
    return pc.sum(pc.take(pc.binary_length(chunk.dictionary), chunk.indices)).as_py() or 0


def _parse_jsonl(data: bytes, path: Path, wanted: Collection[str], kinds: Mapping[str, str]) -> pa.Table:
    """Parse one JSON object per line. Arrow's parser would convert dates to timestamps and name no line."""
    values: dict[str, list[Any]] = {name: [] for name in wanted}
    types: dict[str, type] = {}
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
            cell = _cell(row.get(name), f"{place}: {name!r}", kinds.get(name, "sentence"))
            if cell is not None and types.setdefault(name, type(cell)) is not type(cell):
                raise InputError(f"{place}: {name!r}: some rows have a list, others have text; give a list in each")
            column.append(cell)
    if not values.keys() <= seen:
        return pa.schema([(name, pa.string()) for name in sorted(seen)]).empty_table()
    forms = {name: pa.list_(pa.string()) if types.get(name) is list else pa.string() for name in values}
    return pa.table({name: pa.array(column, forms[name]) for name, column in values.items()})


WANTED = {"label": "an integer or text", "group": "an integer or text", "score": "a number", "labels": "a list"}
"""What a cell of a column holds; of others: text."""


def _cell(value: object, place: str, kind: str) -> str | list[Any] | None:
    if kind == "labels" and isinstance(value, list):
        return [_cell(one, f"{place}: item {number}", "label") for number, one in enumerate(value, start=1)]
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if (whole and kind in ("label", "group")) or (isinstance(value, int | float) and kind == "score"):
        return str(value).lower()  # true and false as Arrow spells them
    if value is None:
        return None
    if not isinstance(value, str):
        raise InputError(f"{place} is {json.dumps(value)[:40]}; expected {WANTED.get(kind, 'text')}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{place} contains an unpaired surrogate, which is not a character") from None
    return value


def read_splits(path: Path, *, columns: Mapping[str, str], splits: Mapping[str, str | None]) -> dict[str, Raw]:
    """Read the splits at `path`: a file, a folder of files, one per split, or a folder of `datasets.save_to_disk`.

    `columns` maps `sentence` (or `sentence1`, `sentence2`) and the target, if any, to the file's names. In a folder,
    `splits` maps train, validation and test to file stems (`dev` for `dev.csv`), or to splits of a `DatasetDict`; null
    is no file. A single file or `Dataset` is all train, so its validation and test must be null. Raises `InputError`
    with file, row or line.
    """
    kinds = {ours: name for ours, name in columns.items() if ours in WANTED}

    def read(file: Path) -> Raw:
        return read_file(file, [*columns.values()], **kinds)

    if path.is_file():
        _check_alone(f"{path} is a single file", splits)
        return {"train": read(path)}
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder")
    if is_saved(path):
        return _read_saved(path, splits)
    return {split: read(_find(path, stem, split)) for split, stem in splits.items() if stem is not None}


def is_saved(path: Path) -> bool:
    """Return whether a path is a folder of `datasets.save_to_disk`."""
    return any((path / name).is_file() for name in SAVED)


def splits_in(folder: Path) -> list[str]:
    """Return the names of the splits in a folder, as `read_splits` takes them; of a single data set, train."""
    if (folder / "state.json").is_file():
        return ["train"]
    return sorted({path.stem for path in folder.iterdir() if path.is_dir() or path.suffix[1:] in EXTENSIONS})


def _check_alone(what: str, splits: Mapping[str, str | None]) -> None:
    for split in ("validation", "test"):
        if splits.get(split) is not None:
            raise InputError(f"splits.{split}: {what}, which is all train; set null to hold {split} out")


def _read_saved(folder: Path, splits: Mapping[str, str | None]) -> dict[str, Raw]:
    """Read a folder of `datasets.save_to_disk`. Raises `InputError` if it is not whole."""
    library = datasets_library()
    try:
        saved = library.load_from_disk(folder)
    except Exception as error:  # missing files, and data and JSON that are damaged, share no base class
        raise InputError(f"{folder}: not a whole folder of datasets.save_to_disk: {said(error)}") from None
    if isinstance(saved, library.Dataset):
        _check_alone(f"{folder} is a single data set", splits)
        saved = {splits["train"]: saved}
    files = {name: [Path(file["filename"]) for file in one.cache_files] for name, one in saved.items()}
    return {
        split: raw._replace(
            inputs={file.relative_to(folder.absolute()).as_posix(): sha256(file) for file in files[splits[split]]}
        )
        for split, raw in chosen(saved, str(folder), splits).items()
    }


def datasets_library() -> Any:
    """Return the library `datasets`, which takes a second to import; without progress bars in a file."""
    import datasets

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    return datasets


def chosen(there: Mapping[Any, Any], name: str, splits: Mapping[str, str | None]) -> dict[str, Raw]:
    """Return the splits of a `DatasetDict` that `splits` names. Raises `InputError` for a split that it lacks."""
    raw = {}
    for split, theirs in splits.items():
        if theirs is None:
            continue
        if theirs not in there:
            raise InputError(f"{name}: splits.{split}: no split {theirs!r}; it has {', '.join(there)}")
        raw[split] = Raw(f"{name}: {theirs}", there[theirs].with_format("arrow")[:])
    return raw


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
