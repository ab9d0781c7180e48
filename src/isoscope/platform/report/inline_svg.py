"""An SVG for a page that holds several: small, with ids of its own, and read out."""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from hashlib import sha256
from itertools import product
from types import MappingProxyType
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from markupsafe import Markup

SVG = "http://www.w3.org/2000/svg"
HREF = "{http://www.w3.org/1999/xlink}href"
COUNTED = re.compile(r"(?!axes)(?:[A-Za-z.]|2d)+_[0-9]+")
"""Names that matplotlib counts, such as `line2d_3`. `axes_1` and names given by `gid` stay."""
PLACES = {"d", "x", "y", "x1", "y1", "x2", "y2", "width", "height", "transform", "points", "cx", "cy", "r"}
DECIMALS = re.compile(r"(\.\d\d)\d+")
REFERENCE = re.compile(r"url\(#([^)]+)\)")
DESCRIPTION, SOURCE = (f"{{http://purl.org/dc/elements/1.1/}}{term}" for term in ("description", "source"))
HASHED = re.compile(r"[A-Za-z]*[0-9a-f_]{8,}")
"""Ids that matplotlib makes of a part's content."""


def inline(
    svg: str,
    *,
    key: str,
    title: str,
    description: str = "",
    parts: Mapping[str, str] = MappingProxyType({}),
    stops: Collection[str] = (),
) -> Markup:
    """Return `svg`, as `figures.style.to_svg` writes it, for a page that holds several figures.

    - It is made small (`compact`), and its ids are unique on the page.
    - The page sets the size.
    - Of its metadata, it keeps the source, as `data-source`.
    - A screen reader reads `title` and `description` (default: the figure's own, which has its values in words).
    - `parts`: name (`gid`) of a part → what it is, for the pointer; the keyboard and screen readers find the `stops`.

    Raises `ValueError` if the text is no SVG.
    """
    ElementTree.register_namespace("", SVG)
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise ValueError(f"not an SVG: {error}") from None
    description = description or root.findtext(f".//{DESCRIPTION}") or title
    source = root.findtext(f".//{SOURCE}")
    for parent, kind in product(list(root.iter()), ("metadata", "style")):
        for child in parent.findall(f"{{{SVG}}}{kind}"):
            parent.remove(child)  # the page has its own style; the SVG's `*` rule would apply to all of it
    compact(root)
    for element in [one for one in root.iter() if one.get("id") in parts]:
        element.set("class", "told")
        if element.get("id") in stops:
            element.attrib.update({"tabindex": "0", "role": "img"})
        _insert(element, "title", parts[element.attrib["id"]])
    _own_ids(root, key)
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    held = root.findall(".//*[@tabindex]")
    about = {"id": f"{key}-svg", "role": "group" if held else "img"} | ({"data-source": source} if source else {})
    root.attrib.update(about | {"aria-labelledby": f"{key}-title {key}-description"})
    _insert(root, "desc", description, {"id": f"{key}-description"})
    _insert(root, "title", title, {"id": f"{key}-title"})
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # serialised XML: escaped by ElementTree


def _insert(element: Element, tag: str, text: str, about: Mapping[str, str] = MappingProxyType({})) -> None:
    """Insert a first child that is read out."""
    spoken = Element(f"{{{SVG}}}{tag}", dict(about))
    spoken.text = text
    element.insert(0, spoken)


def _own_ids(root: Element, key: str) -> None:
    """Give each id a name of its own on the page: hashed ids a short name, others the prefix `key`.

    Ids that the figure repeats are numbered: they name parts of a kind, and nothing refers to them.
    """
    short = sha256(key.encode()).hexdigest()[:6]
    times: Counter[str] = Counter()
    for element in root.iter():
        for name, value in element.attrib.items():
            if name == "href" and value.startswith("#"):
                element.set(name, f"#{_called(value[1:], key, short)}")
            elif "url(#" in value:
                element.set(name, REFERENCE.sub(lambda found: f"url(#{_called(found[1], key, short)})", value))
        if (own := element.get("id")) is not None:
            times[own] += 1
            element.set("id", _called(own, key, short) + (f"~{times[own]}" if times[own] > 1 else ""))


def _called(own: str, key: str, short: str) -> str:
    return f"i{short}{own}" if HASHED.fullmatch(own) else f"{key}-{own}"


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
