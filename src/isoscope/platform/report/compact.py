"""Make an SVG small: styles become classes, names that nothing refers to go, places have two decimals."""

import re
from hashlib import sha256
from xml.etree.ElementTree import Element

SVG = "http://www.w3.org/2000/svg"
HREF = "{http://www.w3.org/1999/xlink}href"
COUNTED = re.compile(r"(?!axes)(?:[A-Za-z.]|2d)+_[0-9]+")
"""Names that matplotlib counts, such as `line2d_3`. `axes_1` and names given by `gid` stay."""
PLACES = {"d", "x", "y", "x1", "y1", "x2", "y2", "width", "height", "transform", "points", "cx", "cy", "r"}
DECIMALS = re.compile(r"(\.\d\d)\d+")
REFERENCE = re.compile(r"url\(#([^)]+)\)")


def compact(root: Element) -> None:
    """Make an SVG of `figures.style.to_svg` about half as large, in place; it looks the same.

    - Attributes `style` become classes, named by a hash of the style, in a style sheet of the SVG. Equal classes of
      several figures on a page have equal rules.
    - Places are cut to two decimals: a hundredth of a point.
    - Ids that matplotlib counts are dropped if nothing refers to them, and so are groups without attributes.
    """
    referred = {name for element in root.iter() for name in _referred(element)}
    rules: dict[str, str] = {}
    for element in root.iter():
        if element.get("id") not in referred and COUNTED.fullmatch(element.get("id", "")):
            del element.attrib["id"]
        if "url(" not in (style := element.get("style", "url(")):  # what refers to an id is the figure's own
            del element.attrib["style"]
            style = ";".join(part.strip().replace(": ", ":") for part in style.split(";") if part.strip())
            rules[name := f"s{sha256(style.encode()).hexdigest()[:6]}"] = style
            element.set("class", name)
        for name in PLACES & element.attrib.keys():
            element.set(name, _cut(element.attrib[name]))
        if element.get("transform", "").startswith("rotate(-0 "):
            del element.attrib["transform"]
        if HREF in element.attrib:
            element.set("href", element.attrib.pop(HREF))
        element.tail = None
        if element.text and not element.text.strip():
            element.text = None
    _unwrapped(root)
    sheet = Element(f"{{{SVG}}}style")
    sheet.text = "".join(f".{name}{{{style}}}" for name, style in rules.items())
    root.insert(0, sheet)


def _referred(element: Element) -> list[str]:
    found = [match for value in element.attrib.values() for match in REFERENCE.findall(value)]
    links = (element.get(name, "") for name in (HREF, "href"))
    return found + [link[1:] for link in links if link.startswith("#")]


def _cut(places: str) -> str:
    """Cut decimals, and leave out the letter of a line that follows a line or a move."""
    last, kept = "", []
    for word in DECIMALS.sub(r"\1", places).split():
        if not (word == "L" and last in ("M", "L")):
            kept.append(word)
        last = word if word.isalpha() else last
    return " ".join(kept)


def _unwrapped(element: Element) -> None:
    """Put the children of groups without attributes into the groups' place, at all depths."""
    for child in element:
        _unwrapped(child)
    kept: list[Element] = []
    for child in element:
        kept += child if child.tag == f"{{{SVG}}}g" and not child.attrib else [child]
    element[:] = kept
