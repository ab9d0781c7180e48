"""Figures and tables of views, with what stands below them on the page."""

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from markupsafe import Markup

from isoscope.base.errors import InputError, first_line, plugin_line
from isoscope.base.paths import LARGE_TABLES
from isoscope.base.view import Tables
from isoscope.platform.figures.origin import MOST
from isoscope.platform.figures.pictures import Picture, as_drawn, views_of
from isoscope.platform.figures.style import WIDTH
from isoscope.platform.figures.text_form import Lines
from isoscope.platform.report.inline_svg import inline
from isoscope.platform.statistics.findings import Finding

SENTENCE = re.compile(r"(?<=[.?])(?<!et al\.)\s+")
"""Where a sentence ends; the point of `et al.` ends none."""


class Drawing(NamedTuple):
    """A figure as inline SVG, or a table, with what stands below it."""

    picture: Markup
    """Empty: it is the table of `lines`."""
    caption: str
    key: str
    """Id of the figure on the page."""
    question: str = ""
    """Heading of the figures that it belongs to."""
    remakes: str | None = None
    """The published figure that it reproduces."""
    tables: Mapping[str, bytes] = MappingProxyType({})
    """Name of each table that it shows → its rows: a gzipped CSV."""
    findings: tuple[Finding, ...] = ()
    """What its rows say, for the first screen."""
    number: str = ""
    lines: Lines = ()
    """Its heads and rows, if it is a table."""
    beside: str = ""
    """Folder of the tables above `MOST` bytes, next to the page; empty: they are not written."""

    @property
    def inside(self) -> dict[str, str]:
        """The tables that the page itself holds, in base64."""
        return {name: b64encode(rows).decode() for name, rows in self.tables.items() if len(rows) <= MOST}

    @property
    def files(self) -> dict[str, str]:
        """Table → file, of the tables next to the page."""
        large = [name for name, rows in self.tables.items() if self.beside and len(rows) > MOST]
        return {name: f"{self.beside}/{self.key}-{name}.csv" for name in large}

    @property
    def share(self) -> int:
        """Its width in percent of the page's width."""
        width = float(self.box.split()[2])  # points; 72 per inch
        return min(100, round(100 * width / (72 * WIDTH)))

    @property
    def box(self) -> str:
        """Its `viewBox`."""
        return re.findall(r'viewBox="([^"]+)"', self.picture)[0]

    @property
    def title(self) -> str:
        """The caption's first sentence, without a full stop."""
        return SENTENCE.split(self.caption, 1)[0].removesuffix(".")

    @property
    def how_to_read(self) -> str:
        """The rest of the caption."""
        return "".join(SENTENCE.split(self.caption, 1)[1:])


def drawing(one: Picture, rows: Mapping[str, bytes], svg: Callable[[], str], *, key: str, beside: str = "") -> Drawing:
    """Return a view's figure or table for the page. `key` makes ids unique; `beside`: see `Drawing`.

    `rows`: its packed rows. `svg` returns the figure as it was drawn.
    """
    title = SENTENCE.split(one.caption, 1)[0]  # the whole caption is below the figure
    lines = one.lines
    picture = Markup() if lines else inline(svg(), key=key, title=title)
    about = (one.view.question, one.remakes, rows, one.findings)
    return Drawing(picture, one.caption, key, *about, lines=lines, beside=beside)


def read_drawings(kind: str, tables: Tables, figures: Path, *, key: str) -> list[Drawing]:
    """Read the figures that a stage drew of a kind of study into the folder `figures`, in order.

    `key` makes ids unique on the page. Raises `OSError` for a missing file, `ValueError` for a damaged one, and for a
    figure that was drawn of other tables.
    """
    beside = LARGE_TABLES.name
    return [
        drawing(one, rows, partial(_padded, file) if file else str, key=f"{key}-{one.name}", beside=beside)
        for one, rows, file in as_drawn(views_of(kind), tables, figures)
    ]


def _padded(file: Path) -> str:
    """Centre a narrow figure in the width of a page: the page scales all figures alike, so their letters stay equal."""

    def wider(found: re.Match[str]) -> str:
        width, height = float(found[1]), found[2]
        return f'viewBox="{min(0.0, (width - 72 * WIDTH) / 2):g} 0 {max(width, 72 * WIDTH):g} {height}"'

    return re.sub(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', wider, file.read_text("utf-8"), count=1)


def numbered(drawings: Sequence[Drawing], chapter: int) -> list[Drawing]:
    """Return figures with the numbers `chapter.1`, `chapter.2`, …"""
    return [one._replace(number=f"{chapter}.{place}") for place, one in enumerate(drawings, start=1)]


def by_question(drawings: Iterable[Drawing]) -> list[tuple[str, list[Drawing]]]:
    """Return (question, figures) of figures that follow each other."""
    return [(question, [*some]) for question, some in groupby(drawings, key=lambda one: one.question)]


@contextmanager
def reading(place: Path, left_by: str, cure: str = "run: isoscope repro") -> Iterator[None]:
    """Raise errors in reading the files of `isoscope <left_by>` as a one-line `InputError`; those of plugins stay."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, OSError, pa.ArrowException) as error:
        if plugin_line(error):
            raise
        raise InputError(f"{place}: not what isoscope {left_by} wrote ({first_line(error)}); {cure}") from None


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a parquet table, with None for NaN: templates test for None."""
    rows = pq.ParquetFile(path).read().to_pylist()
    return [{name: None if value != value else value for name, value in row.items()} for row in rows]
