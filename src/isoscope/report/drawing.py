"""Prepare figures for the page: SVG with unique ids and the page's text colour, captions, descriptions."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
from markupsafe import Markup

from isoscope.errors import InputError
from isoscope.figures.style import INK, WIDTH
from isoscope.studies.view import Picture, Tables, View, pictures, with_added

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


def inline(svg: str, *, key: str, title: str, description: str) -> Markup:
    """Return `svg`, as `figures.style.to_svg` writes it, for a page that holds several figures.

    - Ids begin with `key`. Ids that the figure repeats are numbered, so that each is unique on the page.
    - Ink becomes the page's text colour. The page sets the size.
    - A screen reader reads `title` and `description`.

    Raises `ValueError` if the text is no SVG.
    """
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise ValueError(f"not an SVG: {error}") from None
    for parent, kind in product(list(root.iter()), ("metadata", "style")):
        for child in parent.findall(f"{{{SVG}}}{kind}"):
            parent.remove(child)  # the page has its own style; the SVG's `*` rule would apply to all of it
    times: Counter[str] = Counter()
    for element in root.iter():
        for name, value in element.attrib.items():
            element.set(name, _own(name, value, key))
        if (own := element.get("id")) is not None:
            times[own] += 1
            if times[own] > 1:  # parts of a kind share an id; nothing refers to it
                element.set("id", f"{own}.{times[own]}")
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    root.attrib.update({"role": "img", "aria-labelledby": f"{key}-title {key}-description"})
    for position, (tag, own, text) in enumerate((("title", "title", title), ("desc", "description", description))):
        spoken = ElementTree.Element(f"{{{SVG}}}{tag}", {"id": f"{key}-{own}"})
        spoken.text = text
        root.insert(position, spoken)
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # serialised XML: escaped by ElementTree


def _own(name: str, value: str, key: str) -> str:
    """Return an attribute's value with prefixed ids and the page's text colour."""
    if name == "id":
        return f"{key}-{value}"
    if name in ("href", f"{{{XLINK}}}href"):
        return re.sub(r"^#", f"#{key}-", value)
    return re.sub(r"url\(#", f"url(#{key}-", value).replace(INK, "currentColor")


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


def read_drawings(views: Iterable[View], tables: Tables, figures: Path, *, key: str) -> list[Drawing]:
    """Read the figures of `views` that a stage drew into the folder `figures`, in order.

    `key` makes ids unique on the page. Raises `OSError` for a missing file, `ValueError` for a damaged one.
    """
    return [
        drawing(one, (figures / f"{one.name}.svg").read_text("utf-8"), key=f"{key}-{one.name}")
        for one in pictures(with_added(views), tables)
    ]


@contextmanager
def reading(folder: Path, left_by: str) -> Iterator[None]:
    """Raise errors in reading the files of `isoscope <left_by>` as a one-line `InputError`."""
    try:
        yield
    except (ValueError, KeyError, OSError, pa.ArrowException) as error:
        raise InputError(f"{folder}: not what isoscope {left_by} wrote ({error}); run: isoscope repro") from None


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a parquet table, with None for NaN: templates test for None."""
    rows = pq.read_table(path).to_pylist()
    return [{name: None if value != value else value for name, value in row.items()} for row in rows]
