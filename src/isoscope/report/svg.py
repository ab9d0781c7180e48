"""Make a figure's SVG part of a page: unique ids, the page's text colour, a title and a description."""

import re
from collections import Counter
from xml.etree import ElementTree

from markupsafe import Markup

from isoscope.figures.style import INK

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
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
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
    root.set("role", "img")
    root.set("aria-labelledby", f"{key}-title {key}-description")
    for position, (tag, text) in enumerate((("title", title), ("desc", description))):
        spoken = ElementTree.Element(f"{{{SVG}}}{tag}", {"id": f"{key}-{'description' if tag == 'desc' else tag}"})
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
