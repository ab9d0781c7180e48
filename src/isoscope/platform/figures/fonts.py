"""Fonts of PNG and PDF figures and of notebooks: the machine's, for characters that DejaVu Sans lacks.

No SVG depends on them: its text is text, and the browser draws it with its own fonts.
"""

import logging
import sys
import unicodedata
from functools import cache
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, findSystemFonts, fontManager, get_font
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text

USUAL = "DejaVu Sans"
"""Font of all figures; matplotlib brings it."""

_TOLD: set[str] = set()
# A family may have no bold font; its regular font stands for it.
logging.getLogger("matplotlib.font_manager").addFilter(lambda record: "font weight" not in record.getMessage())


class Family(NamedTuple):
    """A family of fonts, its regular font, and the characters that this has."""

    name: str
    file: str
    characters: frozenset[str]


def give_fonts(figure: Figure) -> list[Text]:
    """Give texts with characters that `USUAL` lacks the fonts that have them; return these texts.

    Characters that no font has are boxes; the first of each script is named on stderr.
    """
    for axes in figure.axes:  # makes the labels of ticks
        axes.get_xticklabels()
        axes.get_yticklabels()
    found = [text for text in figure.findobj(Text) if isinstance(text, Text) and lacking(text.get_text())]
    names = fallbacks(lacking("".join(text.get_text() for text in found)))
    for text in found:
        text.set_fontfamily([USUAL, *names])
    return found


def lacking(text: str) -> frozenset[str]:
    """Return the visible characters that `USUAL` lacks."""
    return frozenset(one for one in {*text} - usual() if unicodedata.category(one)[0] not in "CZ")


@cache
def fallbacks(characters: frozenset[str]) -> tuple[str, ...]:
    """Return names of installed families that have these characters, few families; tell which characters none has."""
    left, names = {*characters}, []
    while best := max(_installed(), key=lambda one: len(left & one.characters), default=None):
        if not left & best.characters:
            break
        left -= best.characters
        names.append(best.name)
        if best.name not in fontManager.get_font_names():  # installed after matplotlib listed all fonts
            fontManager.addfont(best.file)
    _tell({*map(_script, left)})
    return tuple(names)


@cache
def usual() -> frozenset[str]:
    """Return the characters that `USUAL` has."""
    return frozenset(map(chr, get_font(findfont(USUAL)).get_charmap()))


@cache
def _installed() -> tuple[Family, ...]:
    """Return the families of the machine's fonts, without fonts of images (colour emoji), which have no outlines."""
    found: dict[str, Family] = {}
    for file in sorted(findSystemFonts(), key=lambda file: ("Regular" not in Path(file).stem, file)):
        try:
            font = FT2Font(file)
        except (RuntimeError, OSError):  # damaged, or of a form that FreeType does not read
            continue
        if font.scalable and (name := font.family_name) not in found:
            found[name] = Family(name, file, frozenset(map(chr, font.get_charmap())))
    return tuple(sorted(found.values(), key=lambda one: ("Sans" not in one.name, len(one.name), one.name)))


def _script(character: str) -> str:
    if unicodedata.category(character)[0] not in "LM":
        return "emoji or symbol"
    script = unicodedata.name(character, "").partition(" ")[0]
    return script if script == "CJK" else script.title()


def _tell(scripts: set[str]) -> None:
    if new := scripts - _TOLD:
        _TOLD.update(new)
        print(
            f"warning: PNG and PDF figures: no installed font has these characters: {', '.join(sorted(new))}. They are "
            "boxes there; the page and SVG files have them as text. Install a font (Debian: fonts-noto-core, "
            "fonts-noto-cjk, fonts-symbola)",
            file=sys.stderr,
        )
