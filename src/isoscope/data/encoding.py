"""Check that a file is UTF-8 text. Else name the encoding found, the place, and the command that converts the file."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from isoscope.base.errors import InputError

_OTHERS = {
    b"PK\x03\x04": "a zip archive, as Excel's files are; save the table as CSV (UTF-8)",
    b"\xd0\xcf\x11\xe0": "an Excel file; save the table as CSV (UTF-8)",
    b"\x1f\x8b": "compressed by gzip; decompress it with gunzip",
    b"PAR1": "a parquet file; give it a name that ends in .parquet",
    b"%PDF": "a PDF file; save its text as UTF-8",
}
"""First bytes of files that are no text."""
_MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
"""Byte order marks, the longer first."""
_HEAD = 4096
_WESTERN = "WINDOWS-1252"


def check_utf8(data: bytes, path: Path) -> None:
    """Raise `InputError` if `data`, read from `path`, is no text in UTF-8, or has NUL bytes."""
    if other := _starts(data, _OTHERS):
        raise InputError(f"{path}: is {other}")
    if wide := _starts(data, _MARKS) or _wide(data[:_HEAD]):
        raise InputError(f"{path}: is {wide}, not UTF-8; {_convert(path, wide)}")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        where, reason = _place(data, path, error.start), error.reason
        name = _guess(data)
        seems = f"the file seems to be {name}; " if name else "the file's encoding is not known; "
        raise InputError(
            f"{where}: 0x{data[error.start]:02x} is not UTF-8 ({reason}); {seems}{_convert(path, name or 'ENCODING')}"
        ) from None
    if (first := data.find(0)) >= 0:
        clean = shlex.quote(str(_beside(path, "clean")))
        raise InputError(
            f"{_place(data, path, first)}: a NUL byte, which is no text; remove all: "
            f"tr -d '\\000' < {shlex.quote(str(path))} > {clean}"
        )


def _place(data: bytes, path: Path, at: int) -> str:
    line, byte = data.count(b"\n", 0, at) + 1, at - data.rfind(b"\n", 0, at)
    return f"{path}, line {line}, byte {byte}"


def _starts(data: bytes, table: Mapping[bytes, str]) -> str | None:
    return next((name for mark, name in table.items() if data.startswith(mark)), None)


def _wide(head: bytes) -> str | None:
    """Return the encoding of two bytes per letter that the zeros of a text without a byte order mark tell."""
    if 4 * head.count(0) <= len(head):
        return None
    return "UTF-16LE" if head[1::2].count(0) > head[::2].count(0) else "UTF-16BE"


def _guess(data: bytes) -> str | None:
    """Return the western encoding if it fits: text mostly in ASCII letters, and only bytes that it defines."""
    try:
        data.decode("cp1252")
    except UnicodeDecodeError:
        return None
    head = data[: 1 << 20]
    letters = sum(0x41 <= byte & 0xDF <= 0x5A for byte in head)
    return _WESTERN if 4 * sum(byte > 0x7F for byte in head) < letters else None


def _convert(path: Path, encoding: str) -> str:
    """Return the command that converts a file to UTF-8, into a file beside it."""
    return (
        f"convert it: iconv -f {encoding} -t UTF-8 {shlex.quote(str(path))} > {shlex.quote(str(_beside(path, 'utf8')))}"
    )


def _beside(path: Path, what: str) -> Path:
    return path.with_name(f"{path.stem}.{what}{path.suffix}")
