"""Figures of views as the page holds them."""

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
    """A figure and what is said below it."""

    picture: Markup
    caption: str

    @property
    def share(self) -> int:
        """Its width as a percentage of the page's."""
        width = float(re.findall(r'viewBox="0 0 ([0-9.]+) ', self.picture)[0])  # in points, of which an inch has 72
        return min(100, round(100 * width / (72 * WIDTH)))


def drawing(one: Picture, svg: str, *, key: str) -> Drawing:
    """A view's figure that was drawn as `svg`; `key` makes ids unique on the page."""
    return Drawing(inline(svg, key=key, title=one.caption, description=one.spoken), one.caption)


def read_drawings(views: Iterable[View], tables: Tables, figures: Path, *, key: str) -> dict[str, Drawing]:
    """The figures of `views` by name, in order, as a stage drew them into the folder `figures`.

    `key` makes ids unique on the page. Raises `OSError` where a file is missing, and `ValueError` where one is damaged.
    """
    found = {}
    for one in pictures(with_added(views), tables):
        svg = (figures / f"{one.name}.svg").read_text("utf-8")
        found[one.name] = drawing(one, svg, key=f"{key}-{one.name}")
    return found


@contextmanager
def reading(folder: Path, left_by: str) -> Iterator[None]:
    """What goes wrong inside, with files that `isoscope <left_by>` left, as an `InputError` of one line."""
    try:
        yield
    except (ValueError, KeyError, OSError, pa.ArrowException) as error:
        message = f"{folder}: not what isoscope {left_by} left ({error}); run: isoscope repro"
        raise InputError(message) from None


def without_nan(row: dict[str, Any]) -> dict[str, Any]:
    """A row with None for NaN, as a template asks for it."""
    return {name: None if value != value else value for name, value in row.items()}
