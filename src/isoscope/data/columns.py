"""Read the columns of a table as text, numbers or lists of labels; a fault is named by file, row and column."""

import math

import pyarrow as pa
import pyarrow.compute as pc

from isoscope.base.errors import InputError
from isoscope.data.files import Raw

CLASS = "one class per row: an integer, or text"
LARGEST = 1e15
"""Largest size of a number: in single precision its square is finite, and so is a sum of squares."""
_TEXT = (pa.string(), pa.large_string(), pa.string_view(), pa.null())


def strings(raw: Raw, name: str, named: str, *, classes: bool = False, wanted: str = CLASS) -> pa.ChunkedArray:
    """Return a column as text, nulls included; a column of `classes` may hold numbers, too.

    `named`: what names the column, and `wanted`: what it should hold, for errors. Raises `InputError` if it is missing
    or repeats, and if it holds something else or other bytes than UTF-8.
    """
    values = column_of(raw, name, named)
    kind = values.type
    if kind in _TEXT:
        _check_bytes(values, f"column {name!r}", raw.place)
    elif not (classes and (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))):
        raise InputError(f"{raw.place}: column {name!r} holds {kind}; expected {wanted if classes else 'text'}")
    if pa.types.is_floating(kind):  # pandas writes a missing label as NaN, and then the others as 0.0 and 1.0
        values = pc.if_else(pc.is_nan(values), None, values)
    return values.cast(pa.string())


def lists(
    raw: Raw, name: str, named: str, separator: str | None, *, by: str = "data.source.separator"
) -> list[list[str]]:
    """Return the labels of each row as text: a list of text or integers, or text between separators.

    An empty text or list has no labels. `by`: what sets the separator, for errors. Raises `InputError` as `strings`,
    and for a null list or label.
    """
    values = column_of(raw, name, named)
    where = f"{raw.place}: column {name!r}"
    if values.type in _TEXT:
        if not separator:
            raise InputError(f"{where} holds text; give lists of labels, or set {by}, such as '|'")
        rows = [(text or "").split(separator) for text in strings(raw, name, named).to_pylist()]
        return [[part for one in row if (part := one.strip())] for row in rows]
    if not (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)):
        raise InputError(f"{where} holds {values.type}; expected a list of labels per row")
    flat = raw._replace(table=pa.table({name: pc.list_flatten(values)}))
    labels = strings(flat, name, named, classes=True, wanted="labels that are integers or text")
    if labels.null_count or values.null_count:
        raise InputError(f"{where} has rows or labels that are null; a text without labels has an empty list: []")
    found = iter(labels.to_pylist())
    return [[next(found) for _ in range(size)] for size in pc.list_value_length(values).to_pylist()]


def numbers(raw: Raw, name: str, named: str) -> list[float | None]:
    """Return a column as numbers, nulls included.

    Raises `InputError` as `strings`, and for a cell that is not a finite number.
    """
    values = strings(raw, name, named, classes=True, wanted="a number per row").to_pylist()
    found = [None if text is None else _number(text) for text in values]
    for row, number in enumerate(found, start=1):
        if number is not None and not abs(number) <= LARGEST:
            raise InputError(
                f"{raw.place}, row {row}: column {name!r} is {values[row - 1][:40]!r}; expected a finite number up to "
                f"{LARGEST:g}, such as 3.5: correct it or drop the row"
            )
    return found


def _number(text: str) -> float:
    """Return the number that a text is; NaN for another text. Python's 1_000 is no number in a file."""
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


def column_of(raw: Raw, name: str, named: str) -> pa.ChunkedArray:
    """Return a column, not as a dictionary; `named`: what names it. Raises `InputError` unless it is there once."""
    names = raw.table.column_names
    if names.count(name) != 1:
        fault = f"column {name!r} repeats" if name in names else f"no column {name!r} ({named})"
        there = ", ".join(one if one == one.strip() != "" else repr(one) for one in names) or "none"
        close = [one for one in names if one.strip().casefold() == name.strip().casefold() != one]
        cure = f"; did you mean {close[0]!r}?" if close else ""
        raise InputError(f"{raw.place}: {fault}; there are: {there}{cure}")
    values = raw.table[name]
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


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
