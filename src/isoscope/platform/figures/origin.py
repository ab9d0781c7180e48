"""The way back of a figure: its file names the figure, and the digests of its rows and of the runs.

The bytes change only with the content: no commit, no date. Each format has the same text, `Origin.text`, as Dublin
Core's source (SVG), as the text `Source` (PNG) or as the subject (PDF). An SVG also has the rows.
"""

import gzip
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote

import pandas as pd

from isoscope.platform.figures.csv_text import csv_text

# Bytes of a packed table that a page or an SVG still holds; hexadecimal digits of a run's digest in a figure.
MOST, SHORT = 24_000, 16
_TEXT = re.compile(rb"isoscope figure=([\w./%~-]+) rows=([0-9a-f]{64}) runs=((?:[0-9a-f]{16},?)*)")


class Origin(NamedTuple):
    """What a figure was made of.

    `figure`: study or comparison, and the name of the figure (`fusion/curves`). `rows`: sha256 of the CSV of its rows
    that a page has. `runs`: the first `SHORT` digits of each run's digest.
    """

    figure: str
    rows: str
    runs: tuple[str, ...]

    @property
    def text(self) -> str:
        """The words in the file."""
        return f"isoscope figure={self.figure} rows={self.rows} runs={','.join(self.runs)}"


def origin(figure: str, tables: Mapping[str, bytes], runs: Iterable[str]) -> Origin:
    """Return the origin of a figure with `tables`, packed rows by name, which were made of runs with these digests."""
    rows = (name.encode() + b"\n" + gzip.decompress(packed) for name, packed in tables.items())
    return Origin(quote(figure), sha256(b"".join(rows)).hexdigest(), tuple(sorted({run[:SHORT] for run in runs})))


def packed(rows: pd.DataFrame) -> bytes:
    """Return a table as a gzipped CSV, equal for equal tables."""
    return gzip.compress(csv_text(rows, float_format="%.6g").encode(), mtime=0)


def with_rows(svg: str, tables: Mapping[str, bytes]) -> str:
    """Return an SVG that also holds the `tables` of at most `MOST` bytes."""
    held = "".join(
        f'<rows xmlns="urn:isoscope:rows" name="{quote(name)}">{b64encode(rows).decode()}</rows>\n'
        for name, rows in tables.items()
        if len(rows) <= MOST
    )
    return svg.replace("</metadata>", f"{held}</metadata>", 1)


def origins(content: bytes) -> list[Origin]:
    """Return the origins in an SVG, PNG, PDF or page, in their order, each once."""
    found = [[part.decode() for part in one] for one in _TEXT.findall(content)]
    return [*dict.fromkeys(Origin(one, rows, tuple(filter(None, runs.split(",")))) for one, rows, runs in found)]
