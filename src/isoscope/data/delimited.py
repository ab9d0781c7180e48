"""Read tables from csv (RFC 4180) and tsv text; a fault is named by its line, with its cure."""

import csv
import io
import re
import shlex
import sys
from collections.abc import Collection
from pathlib import Path

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


def read_delimited(data: bytes, path: Path, wanted: Collection[str]) -> pa.Table:
    """Return all columns of a csv or tsv table in UTF-8, those `wanted` as text.

    In csv an unquoted empty cell is null. In tsv quotes have no meaning, as in the GLUE files. An empty line is a row
    only in a file with a single column. Raises `InputError` with the line of a row of another length, of a quote
    that is not closed, and of text after a closing quote; and for another delimiter.
    """
    text = data.removeprefix(BOM)
    if not text.strip():
        raise InputError(f"{path}: is empty ({len(data)} bytes); its first line names the columns, such as text,label")
    header = re.split(rb"[\r\n]", text.lstrip(b"\r\n"), maxsplit=1)[0].decode()
    quotes = path.suffix == ".csv"
    delimiter = "," if quotes else "\t"
    if delimiter not in header and header.strip('"') not in wanted:
        _refuse_delimiter(header, path, delimiter, quotes=b'"' in text)
    if quotes and b'"' in text:
        _check_rows(text, path, delimiter)
    try:
        table = pacsv.read_csv(
            io.BytesIO(data),
            # One block, so that a quoted text may have any length.
            read_options=pacsv.ReadOptions(use_threads=False, block_size=min(max(len(data), 1 << 20), (1 << 31) - 1)),
            parse_options=pacsv.ParseOptions(
                delimiter=delimiter,
                quote_char='"' if quotes else False,
                newlines_in_values=quotes,
                ignore_empty_lines=delimiter in header or text.startswith((b"\n", b"\r")),
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        _check_rows(text, path, delimiter)
        raise
    if not table.num_rows:
        raise InputError(f"{path}: only a header, no rows; add rows below it")
    return table


def _refuse_delimiter(header: str, path: Path, own: str, *, quotes: bool) -> None:
    """Raise `InputError` if the header has another delimiter; `quotes`: whether the file has any."""
    other = max(OTHERS, key=header.count)
    if other not in header:
        return
    suffix = {",": ".csv", "\t": ".tsv"}.get(other)
    if suffix is None or (suffix == ".tsv" and quotes):  # quotes have no meaning in tsv
        target, sep = path.with_name(f"{path.stem}.comma.csv"), other.replace("\t", "\\t")
        cure = f"convert it: python -c '{_CONVERT.format(sep)}' {shlex.join((str(path), str(target)))}"
    else:
        cure = f"rename it: mv {shlex.join((str(path), str(path.with_suffix(suffix))))}"
    raise InputError(
        f"{path}, line 1: {OTHERS[other]} separate the columns, where {path.suffix} has {OTHERS[own]}; {cure}"
    )


def _check_rows(text: bytes, path: Path, delimiter: str) -> None:
    """Raise `InputError`, naming the line, for the first row that is not well formed."""
    quotes = delimiter == ","
    reader = csv.reader(
        io.StringIO(text.decode(), newline=""),
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
        strict=True,
    )
    limit = csv.field_size_limit(sys.maxsize)
    columns, line = 0, 1
    try:
        for row in reader:
            columns = columns or len(row)
            if row and len(row) != columns:
                more = "quote a text that contains the delimiter" if quotes else "a text must not contain a tab"
                cure = more if len(row) > columns else "add what is missing, or drop the row"
                raise InputError(
                    f"{path}, line {line}: {len(row)} cells, but the header has {columns}: "
                    f"{delimiter.join(row)[:_SHOWN]!r}; {cure}"
                )
            line = reader.line_num + 1
    except csv.Error as error:
        if "end of data" in str(error):
            fault = 'a quote opens and never closes; close it, or write a quote inside a text twice ("")'
        else:
            fault = 'text follows a closing quote; write a quote inside a quoted text twice (""), not as \\"'
        raise InputError(f"{path}, line {line}: {fault}") from None
    finally:
        csv.field_size_limit(limit)
