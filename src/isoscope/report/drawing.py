"""Figures of views as the page holds them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from isoscope.report.svg import inline
from isoscope.studies.stored import drawn
from isoscope.studies.view import Tables, View


class Drawing(NamedTuple):
    """A figure and what is said below it."""

    picture: Markup
    caption: str


def drawings(views: Iterable[View], tables: Tables, figures: Path, *, key: str) -> list[Drawing]:
    """The figures that a stage drew of `views` in the folder `figures`, in order; `key` makes ids unique on the page.

    Raises `OSError` where one is missing, and `ValueError` where one is no SVG.
    """
    return [
        Drawing(
            inline(svg, key=f"{key}-{picture.name}", title=picture.caption, description=picture.spoken),
            picture.caption,
        )
        for picture, svg in drawn(views, tables, figures)
    ]


def without_nan(row: dict[str, Any]) -> dict[str, Any]:
    """A row with None for NaN, as a template asks for it."""
    return {name: None if value != value else value for name, value in row.items()}
