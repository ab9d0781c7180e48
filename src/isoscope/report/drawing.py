"""Figures and their captions, ready for the page."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from markupsafe import Markup

from isoscope.errors import InputError
from isoscope.figures.style import WIDTH
from isoscope.report.svg import inline
from isoscope.studies.view import Picture, Tables, View, pictures, with_added


class Drawing(NamedTuple):
    """A figure as inline SVG, and its caption."""

    picture: Markup
    caption: str

    @property
    def share(self) -> int:
        """Its width in percent of the page's width."""
        width = float(re.findall(r'viewBox="0 0 ([0-9.]+) ', self.picture)[0])  # points; 72 per inch
        return min(100, round(100 * width / (72 * WIDTH)))


def drawing(one: Picture, svg: str, *, key: str) -> Drawing:
    """Return a view's figure, already drawn as `svg`, for the page. `key` makes ids unique."""
    return Drawing(inline(svg, key=key, title=one.caption, description=one.spoken), one.caption)


def read_drawings(views: Iterable[View], tables: Tables, figures: Path, *, key: str) -> dict[str, Drawing]:
    """Read the figures of `views` that a stage drew into the folder `figures`, by name and in order.

    `key` makes ids unique on the page. Raises `OSError` for a missing file, `ValueError` for a damaged one.
    """
    found = {}
    for one in pictures(with_added(views), tables):
        svg = (figures / f"{one.name}.svg").read_text("utf-8")
        found[one.name] = drawing(one, svg, key=f"{key}-{one.name}")
    return found


@contextmanager
def reading(folder: Path, left_by: str) -> Iterator[None]:
    """Raise errors in reading the files of `isoscope <left_by>` as a one-line `InputError`."""
    try:
        yield
    except (ValueError, KeyError, OSError, pa.ArrowException) as error:
        message = f"{folder}: not what isoscope {left_by} wrote ({error}); run: isoscope repro"
        raise InputError(message) from None


def without_nan(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with None for NaN: templates test for None."""
    return {name: None if value != value else value for name, value in row.items()}
