"""Open files of vectors that somebody has computed, by suffix; they are read by parts, and may exceed the memory."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from safetensors import SafetensorError, safe_open

from isoscope.base.errors import InputError
from isoscope.data.files import Raw, check_names
from isoscope.data.given_rows import PART, GivenRows, Parts, check_shape


def named(text: str) -> tuple[Path, str | None] | None:
    """Return path and tensor or column of a text such as `vectors.npy` or `all.safetensors:NAME`; None: no vectors."""
    match = re.fullmatch(rf"(.+\.(?:{'|'.join(FORMATS)}))(?::(.+))?", text)
    return (Path(match[1]), match[2]) if match and not Path(text).is_dir() else None


def open_vectors(path: Path, name: str | None, others: Collection[str] = ()) -> GivenRows:
    """Open a file of vectors: npy, parquet, safetensors or csv, by its suffix.

    `name`: the tensor or the column of lists [default: the only]. A parquet without lists gives all its columns of
    fractions, a csv all its columns of numbers, except those called `others`. Raises `InputError` for a file of another
    shape or content.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if name is not None and path.suffix in (".npy", ".csv"):
        raise InputError(f"{path}:{name}: a {path.suffix[1:]} holds one set of vectors; leave out {':' + name!r}")
    with readable(path):
        found = FORMATS[path.suffix[1:]](path, name, {*others})
    if not found.rows or not found.width:
        raise InputError(f"{path}: {found.rows} rows of {found.width} numbers; expected a vector per row")
    return found


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what libraries raise for a damaged file into `InputError`."""
    try:
        yield
    except (pa.ArrowException, SafetensorError, ValueError, EOFError, OSError) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(f"{path}: not a whole {path.suffix[1:]} of vectors: {said[0]}") from None


def _starts(rows: int, width: int) -> Iterator[slice]:
    step = max(1, PART // (8 * max(1, width)))
    yield from (slice(start, min(rows, start + step)) for start in range(0, rows, step))


def _npy(path: Path, _: str | None, __: set[str]) -> GivenRows:
    with path.open("rb") as file:  # mapping an array without rows is an error of the system
        major = np.lib.format.read_magic(file)[0]
        header = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, _fortran, dtype = header(file)
    check_shape(str(path), shape, str(dtype), dtype.kind in "fiu")

    def parts() -> Parts:
        with readable(path):
            for rows in _starts(shape[0], shape[1]):  # mapped again: what is mapped and was read stays in memory
                yield np.array(np.load(path, mmap_mode="r", allow_pickle=False)[rows])

    return GivenRows(str(path), shape[0], shape[1], str(dtype), (), parts)


def _safetensors(path: Path, name: str | None, _: set[str]) -> GivenRows:
    with safe_open(path, "numpy") as file:
        kinds = {key: (file.get_slice(key).get_shape(), file.get_slice(key).get_dtype()) for key in file.keys()}  # noqa: SIM118
    matrices = [key for key, (shape, _) in kinds.items() if len(shape) == 2]
    name = _only(path, name, [*kinds], matrices, "matrix")
    shape, dtype = kinds[name]
    check_shape(f"{path}:{name}", shape, dtype, re.fullmatch(r"BF16|[FIU]\d+", dtype) is not None)
    framework = "pt" if dtype == "BF16" else "numpy"  # NumPy has no bfloat16

    def parts() -> Parts:
        with readable(path):
            for rows in _starts(shape[0], shape[1]):
                with safe_open(path, framework) as file:
                    part = file.get_slice(name)[rows]
                    yield part if framework == "numpy" else part.float().numpy()

    return GivenRows(f"{path}:{name}", shape[0], shape[1], dtype, (name,), parts)


def _buffered(path: Path) -> pq.ParquetFile:
    """Open a file whose groups of rows are read through a buffer: a group may be as large as the file."""
    return pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)


def _parquet(path: Path, name: str | None, others: set[str]) -> GivenRows:
    with _buffered(path) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        check_names(path, schema.names)
        lists = [one.name for one in schema if _is_list(one.type) and one.name not in others]
        single = [one.name for one in schema if pa.types.is_floating(one.type) and one.name not in others]
        if name is None and not lists and single:
            width, dtype, columns = len(single), str(schema.field(single[0]).type), single
        else:
            columns = [_only(path, name, schema.names, lists, "column of lists of numbers")]
            kind = schema.field(columns[0]).type
            if not _is_list(kind):
                raise InputError(f"{path}: column {columns[0]!r} holds {kind}; expected a list of numbers per row")
            dtype = str(kind.value_type)
            first: Any = [one.column(0)[0].as_py() for one in islice(file.iter_batches(1, columns=columns), 1)]
            width = kind.list_size if pa.types.is_fixed_size_list(kind) else len((*first, ())[0] or ())

    def parts() -> Parts:
        with readable(path), _buffered(path) as file:
            start, step = 0, next(_starts(rows, width)).stop
            for batch in file.iter_batches(step, columns=columns, use_threads=False):
                yield _of_columns(batch) if columns is single else _of_lists(path, batch.column(0), width, start)
                start += len(batch)

    def further(names: Sequence[str]) -> Raw:
        known = {*names} <= {*schema.names}
        return Raw(str(path), pq.read_table(path, columns=[*names]) if known else schema.empty_table())

    return GivenRows(str(path), rows, width, dtype, tuple(columns), parts, further)


def _csv(path: Path, _: str | None, others: set[str]) -> GivenRows:
    with _delimited(path) as reader:
        schema, first = reader.schema, next(iter(reader), None)
    check_names(path, schema.names)
    _check_head(path, schema.names)
    whole = [one.name for one in schema if pa.types.is_integer(one.type) and one.name not in others]
    fractions = (pa.types.is_floating, pa.types.is_null)  # a column without a value is refused when it is read
    broken = [one.name for one in schema if any(is_(one.type) for is_ in fractions) and one.name not in others]
    columns = [name for name in schema.names if name in {*whole, *broken}]
    if not columns:
        raise InputError(f"{path}: no column of numbers; there are: {', '.join(schema.names)}")
    for name in {*schema.names} - {*columns, *others}:
        _check_text(path, name, first[name] if first else pa.array([]))
    types = dict.fromkeys(columns, pa.float64())
    with readable(path), _delimited(path, columns[:1], types) as reader:
        rows = sum(len(batch) for batch in reader)

    def parts() -> Parts:
        with readable(path), _delimited(path, columns, types) as reader:
            yield from (_of_columns(batch) for batch in reader if len(batch))

    def further(names: Sequence[str]) -> Raw:
        if not {*names} <= {*schema.names}:
            return Raw(str(path), schema.empty_table())
        with readable(path), _delimited(path, names, dict.fromkeys(names, pa.string())) as reader:
            return Raw(str(path), reader.read_all())

    return GivenRows(
        str(path), rows, len(columns), "double", tuple(columns), parts, further, tuple(whole if broken else ())
    )


FORMATS: dict[str, Callable[[Path, str | None, set[str]], GivenRows]] = {
    "npy": _npy,
    "parquet": _parquet,
    "safetensors": _safetensors,
    "csv": _csv,
}
"""Suffix → the function that opens such a file."""


def _delimited(path: Path, columns: Sequence[str] = (), types: Any = None) -> pacsv.CSVStreamingReader:
    return pacsv.open_csv(
        path,
        read_options=pacsv.ReadOptions(use_threads=False, block_size=1 << 24),
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(
            include_columns=[*columns],
            column_types=types,
            null_values=["", "NaN", "nan"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")


def _check_head(path: Path, names: Sequence[str]) -> None:
    """Raise `InputError` for a first line of numbers: a row of vectors. Ascending whole numbers may be names."""
    numbers = [float(name) for name in names if _NUMBER.fullmatch(name)]
    ascending = all(name.strip().isdecimal() for name in names) and all(low < high for low, high in pairwise(numbers))
    if len(numbers) == len(names) and not ascending:
        raise InputError(f"{path}: line 1 holds numbers, not the names of columns; put a line of names before it")


def _check_text(path: Path, name: str, column: pa.Array) -> None:
    """Raise `InputError` for a column of numbers that a cell without a number turns into text."""
    cells = [None if one is None else _NUMBER.fullmatch(str(one)) for one in column.to_pylist()]
    row = next((number for number, one in enumerate(cells) if not one), None)
    if sum(map(bool, cells)) * 2 > len(cells) and row is not None:
        raise InputError(
            f"{path}, row {row + 1}: column {name!r} is {column[row].as_py()!r}, where most rows have a number; "
            "correct it, or leave the column out"
        )


def _only(path: Path, name: str | None, every: Sequence[str], fitting: Sequence[str], what: str) -> str:
    """Return the name that is asked for, or the only name that fits. Raises `InputError` that lists the names."""
    if name in every or (name is None and len(fitting) == 1):
        return name or fitting[0]
    there = ", ".join([*every][:10]) or "none"
    if name is not None:
        raise InputError(f"{path}:{name}: no {name!r} in the file; there are: {there}")
    if not fitting:
        raise InputError(f"{path}: no {what}; there are: {there}")
    names = ", ".join(fitting[:10])
    raise InputError(f"{path}: more than one {what} ({names}); name it: {path.name}:{fitting[0]}")


def _is_list(kind: pa.DataType) -> bool:
    nested = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return nested and (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type))


def _of_lists(path: Path, column: pa.Array, width: int, start: int) -> npt.NDArray[Any]:
    """Return a column of lists as a matrix. Raises `InputError` for an empty cell and a list of another length."""
    lengths = np.array(column.value_lengths().fill_null(-1))
    if len(wrong := np.flatnonzero(lengths != width)):
        length = int(lengths[wrong[0]])
        found = "is empty" if length < 0 else f"has {length} numbers, the first row has {width}"
        raise InputError(f"{path}, row {start + int(wrong[0]) + 1}: {found}; correct it or drop the row")
    return column.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)  # a null becomes NaN


def _of_columns(batch: pa.RecordBatch) -> npt.NDArray[Any]:
    return np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns])
