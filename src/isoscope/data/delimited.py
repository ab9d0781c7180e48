"""Read tables from csv (RFC 4180) and tsv text; a fault is named by its line, with its cure."""

import csv
import io
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.csv as pacsv

from isoscope.base.errors import InputError

BOM = b"\xef\xbb\xbf"
OTHERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_SHOWN = 40
_CONVERT = (
    'import pandas, sys; pandas.read_csv(sys.argv[1], sep="{}", dtype=str, keep_default_na=False)'
    ".to_csv(sys.argv[2], index=False)"
)


class Form(NamedTuple):
    """The form of a table: its delimiter, and whether quotes have a meaning."""

    delimiter: str
    quotes: bool


CSV, TSV = Form(",", quotes=True), Form("\t", quotes=False)


def read_delimited(data: bytes, path: Path, wanted: Sequence[str], form: Form) -> pa.Table:
    """Return all columns of a table in UTF-8, those `wanted` as text.

    In csv an unquoted empty cell is null. In tsv quotes have no meaning, as in the GLUE files. An empty line is a row
    only in a file with a single column. Raises `InputError` with the line of a row of another length, of a quote
    that is not closed, and of text after a closing quote; and for another delimiter.
    """
    text = data.removeprefix(BOM)
    if not text.strip():
        raise InputError(f"{path}: is empty ({len(data)} bytes); its first line names the columns, such as text,label")
    _check_delimiter(text, path, wanted, form)
    if form.quotes and b'"' in text:
        _check_rows(text, path, form)
    try:
        table = _parse(data, wanted, form, blank=False)
        alone = table.num_columns == 1 and not text.startswith((b"\n", b"\r"))
        table = _parse(data, wanted, form, blank=True) if alone else table
    except pa.ArrowInvalid:
        _check_rows(text, path, form)
        raise
    if not table.num_rows:
        raise InputError(f"{path}: only a header, no rows; add rows below it")
    return table


def _parse(data: bytes, wanted: Sequence[str], form: Form, *, blank: bool) -> pa.Table:
    """Parse a table. `blank`: an empty line is a row."""
    return pacsv.read_csv(
        io.BytesIO(data),
        # One block, so that a quoted text may have any length.
        read_options=pacsv.ReadOptions(use_threads=False, block_size=min(max(len(data), 1 << 20), (1 << 31) - 1)),
        parse_options=pacsv.ParseOptions(
            delimiter=form.delimiter,
            quote_char='"' if form.quotes else False,
            newlines_in_values=form.quotes,
            ignore_empty_lines=not blank,
        ),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(wanted, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _check_delimiter(text: bytes, path: Path, wanted: Sequence[str], form: Form) -> None:
    """Raise `InputError` if the header has another delimiter, and not the form's own."""
    header = re.split(rb"[\r\n]", text.lstrip(b"\r\n"), maxsplit=1)[0].decode()
    found = [one for one in OTHERS if one != form.delimiter and one in header]
    if form.delimiter in header or not found or header.strip('"') in wanted:
        return
    other = max(found, key=header.count)
    suffix = {",": ".csv", "\t": ".tsv"}.get(other)
    if suffix is None or (suffix == ".tsv" and b'"' in text):  # quotes have no meaning in tsv
        target, sep = path.with_name(f"{path.stem}.comma.csv"), other.replace("\t", "\\t")
        cure = f"convert it: python -c '{_CONVERT.format(sep)}' {shlex.join((str(path), str(target)))}"
    else:
        cure = f"rename it: mv {shlex.join((str(path), str(path.with_suffix(suffix))))}"
    own = OTHERS[form.delimiter]
    raise InputError(f"{path}, line 1: {OTHERS[other]} separate the columns, where {path.suffix} has {own}; {cure}")


def _check_rows(text: bytes, path: Path, form: Form) -> None:
    """Raise `InputError`, naming the line, for the first row that is not well formed."""
    columns = 0
    for line, row in _rows(text, path, form):
        if not columns:
            columns = len(row)
        elif row and len(row) != columns:
            cure = "quote a text that contains the delimiter" if form.quotes else "a text must not contain a tab"
            cure = cure if len(row) > columns else "add what is missing, or drop the row"
            count = f"{len(row)} column{'s' * (len(row) != 1)}"
            raise InputError(
                f"{path}, line {line}: {count}, but the header has {columns}: "
                f"{form.delimiter.join(row)[:_SHOWN]!r}; {cure}"
            )


def _rows(text: bytes, path: Path, form: Form) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line of each row, and its cells."""
    reader = csv.reader(
        io.StringIO(text.decode(), newline=""),
        delimiter=form.delimiter,
        quoting=csv.QUOTE_MINIMAL if form.quotes else csv.QUOTE_NONE,
        strict=True,
    )
    limit = csv.field_size_limit(sys.maxsize)
    line = 1
    try:
        for row in reader:
            yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        if "end of data" in str(error):
            fault = 'a quote opens and never closes; close it, or write a quote inside a text twice ("")'
        else:
            fault = 'text follows a closing quote; write a quote inside a quoted text twice (""), not as \\"'
        raise InputError(f"{path}, line {line}: {fault}") from None
    finally:
        csv.field_size_limit(limit)
