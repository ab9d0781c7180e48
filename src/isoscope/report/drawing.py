"""Figures of views as the page holds them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from markupsafe import Markup

from isoscope.errors import InputError
from isoscope.report.svg import inline
from isoscope.studies.view import Tables, View, pictures


class Drawing(NamedTuple):
    """A figure and what is said below it."""

    picture: Markup
    caption: str


def read_drawings(views: Iterable[View], tables: Tables, figures: Path, *, key: str) -> dict[str, Drawing]:
    """The figures of `views` by name, in order, as a stage drew them into the folder `figures`.

    `key` makes ids unique on the page. Raises `OSError` where a file is missing, and `ValueError` where one is damaged.
    """
    found = {}
    for one in pictures(views, tables):
        svg = (figures / f"{one.name}.svg").read_text("utf-8")
        picture = inline(svg, key=f"{key}-{one.name}", title=one.caption, description=one.spoken)
        found[one.name] = Drawing(picture, one.caption)
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
