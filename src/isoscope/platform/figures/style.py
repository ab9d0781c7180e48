"""Shared style of all figures: colours, sizes, and SVG whose bytes depend only on the data."""

import io
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any
from unicodedata import category, east_asian_width

import matplotlib as mpl
from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.ft2font import LoadFlags
from matplotlib.legend import Legend
from matplotlib.patches import Patch, Rectangle

from isoscope.platform.figures.fonts import USUAL, give_fonts, usual

ARM_COLOURS = ("#0080c0", "#d55e00", "#009e73", "#b5519f", "#a67c00", "#5b86b0", "#a65628", "#7a7a7a")
"""Contrast of each is 3 : 1 on a white and a dark page; the first four are distinct for common colour-blindnesses."""
ARM_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Markers in addition to colours, so that no curve depends on colour alone."""
INK = "#1b1f24"
"""Colour of text, axes and grid."""
HATCH = "#8a8f96"
"""Colour of cells and panels without a number; visible on a white and on a dark page."""
SEQUENTIAL, DIVERGING = "viridis", "RdBu_r"
"""Colour maps of shares and of signed numbers; lightness carries the value, so they work with colour-blindness."""
BOXED: dict[str, Any] = {
    "color": "#101418",
    "bbox": {"facecolor": "#ffffff", "edgecolor": "none", "pad": 1.5, "alpha": 0.85},
}
"""Style of text that is legible on any background: it sets both text and background colour."""
SHAPES = 4000
"""Up to this number of points, each is a shape of the SVG; above it, a panel's points are rasterised."""
WIDTH = 7.2
"""Inches: width of a page's text, across both columns."""
MARGIN = 0.1
"""Inches of margin of a legend, left and right together."""
PROSE, BOLD, ELSEWHERE = 0.58, 1.12, 0.8
"""Mean width of a letter in prose over the font size; how much wider letters of a title are; letters of web fonts."""

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # a class may have one; no SVG may

_SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": [USUAL],
    "font.size": 9.0,
    "text.color": INK,
    "text.parse_math": False,  # a class may be called "$"
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.formatter.useoffset": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "isoscope",
    "pdf.fonttype": 42,  # TrueType; journals refuse matplotlib's Type 3
    "svg.fonttype": "none",  # text stays text: selectable, readable to a screen reader, in any script
}


@contextmanager
def style() -> Iterator[None]:
    """Draw with the project's settings; ignore the user's matplotlibrc.

    No warnings of glyphs that matplotlib's font lacks: the page's fonts draw an SVG's text.
    """
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s)Glyph \d+ .* missing from font", category=UserWarning)
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def layer_tick(layer: float, _: float = 0.0) -> str:
    """Return the tick label of a layer, or of a relative depth; below 0 is the word table alone."""
    return "w" if layer < 0 else f"{layer:g}"


def look(index: int) -> dict[str, Any]:
    """Return `color` and `marker` of the arm number `index`; pairs repeat only after all are used."""
    again, colour = divmod(index, len(ARM_COLOURS))
    return {"color": ARM_COLOURS[colour], "marker": ARM_MARKERS[(index + again) % len(ARM_MARKERS)]}


def shade(place: int, count: int) -> dict[str, Any]:
    """Return `color` and `marker` of line `place` of `count`, from dark to light: contrast 3 : 1 on white, or more."""
    colour = colormaps[SEQUENTIAL](0.58 * place / max(count - 1, 1))
    return {"color": colour, "marker": ARM_MARKERS[place % len(ARM_MARKERS)]}


def wrapped(text: str, inches: float, *, size: float = 9.0, lines: int = 2) -> str:
    """Break `text` into at most `lines` lines that fit into `inches` at `size` points.

    In a text that is too long, … replaces the middle: similar names mostly differ at their end.
    """
    letters = max(6, int(inches * 72 / (_em(text) * size)))
    found = textwrap.wrap(text, letters, max_lines=lines, placeholder=" …")
    kept = min(len(text), lines * letters)
    while found and found[-1].endswith("…") and kept > 2:
        kept -= 1
        shorter = f"{text[: kept - kept // 2].rstrip()} … {text[len(text) - kept // 2 :].lstrip()}"
        if len(broken := textwrap.wrap(shorter, letters)) <= lines:
            return "\n".join(broken)
    return "\n".join(found or [""])


def width(text: str, size: float) -> float:
    """Return about how wide a line is, in inches, at `size` points."""
    return len(text) * _em(text) * size / 72


def _em(text: str) -> float:
    """Return the mean width of a letter over the font size: that of prose, or the measured width if it is larger."""
    mean = sum(map(_advance, text.replace("\n", " "))) / max(len(text), 1)
    return PROSE if mean <= 1.05 * PROSE else BOLD * mean


@cache
def _advance(letter: str) -> float:
    """Return a letter's width over the font size; wide letters (Chinese, emoji) are as wide as high in web fonts.

    Of characters that `USUAL` lacks, a usual width; accents and vowel signs above or below a letter have none, and
    neither have control and format characters.
    """
    if east_asian_width(letter) in "WF":
        return 1.0
    if letter not in usual():
        return 0.0 if category(letter) in ("Mn", "Cc", "Cf") else ELSEWHERE
    font = get_font(findfont(USUAL))
    font.set_size(100, 72)
    return float(font.load_char(ord(letter), flags=LoadFlags.NO_HINTING).linearHoriAdvance) / 65536 / 100


def legend_below(figure: Figure, handles: Sequence[Artist], *, columns: int, size: float = 7.5, **more: Any) -> Legend:
    """Add a legend below the panels, with as many columns as fit into the figure's width, at most `columns`.

    To be called within `style`. With fewer columns, the figure grows in height. `more`: options of `Figure.legend`.
    An entry has the name (`gid`) of its handle, so that the report hides it with its curves.
    """
    renderer = FigureCanvasAgg(figure).get_renderer()
    heights = []
    for count in range(min(columns, len(handles)) or 1, 0, -1):
        made = figure.legend(handles=handles, loc="outside lower center", ncols=count, fontsize=size, **more)
        box = made.get_window_extent(renderer)
        heights.append(box.height)
        if count == 1 or box.width <= figure.bbox.width - MARGIN * figure.dpi:
            break
        made.remove()
    for handle, *parts in zip(handles, made.legend_handles, made.get_texts(), strict=True):
        for part in filter(None, parts):
            part.set_gid(handle.get_gid() if isinstance(handle, Artist) else None)  # error bars have no name
    figure.set_figheight(figure.get_figheight() + (heights[-1] - heights[0]) / figure.dpi)
    return made


def hatched(axes: Axes, text: str) -> None:
    """Hatch a panel without data, and give the reason in `text`."""
    hatch: dict[str, Any] = {"facecolor": "none", "edgecolor": HATCH, "hatch": "////", "linewidth": 0}
    axes.add_patch(Rectangle((0, 0), 1, 1, transform=axes.transAxes, gid="hatched", **hatch))
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=7, **BOXED)


def hatch_key(label: str, hatch: str = "//////") -> Patch:
    """Return a hatched square for a legend."""
    return Patch(facecolor="none", edgecolor=HATCH, hatch=hatch, linewidth=0.6, label=label)


def notice(text: str) -> Figure:
    """Return a figure with only a text, for a folder without figures: `dvc plots` fails on an empty folder."""
    with style():
        figure = Figure(figsize=(4.0, 1.0))
        figure.text(0.5, 0.5, text, ha="center", va="center")
    return figure


def to_svg(figure: Figure, metadata: Mapping[str, str] | None = None) -> str:
    """Return the figure as SVG text. Equal figures give equal text (no date, ids from the content).

    The figure's label, which says its values in words, is its description. A character that XML does not allow becomes
    U+FFFD.
    `metadata`: Dublin Core terms to write, such as `{"Source": "digest 8406d364"}`. Raises `ValueError` for an unknown
    term.
    """
    told = figure.get_label() or None
    written = {"Date": None, "Creator": None, "Description": told, **(metadata or {})}
    return _NOT_XML.sub("\ufffd", _written(figure, format="svg", metadata=written, transparent=True).decode())


def to_png(figure: Figure, *, metadata: Mapping[str, str] | None = None) -> bytes:
    """Return the figure as PNG on white, 300 dpi. `metadata`: texts by keyword.

    Equal figures give equal bytes, on machines with the same fonts if a text has characters that `fonts.USUAL` lacks.
    """
    return _written(figure, format="png", metadata={"Software": None, **(metadata or {})}, dpi=300)


def to_pdf(figure: Figure, *, subject: str) -> bytes:
    """Return the figure as PDF for a paper, its letters as outlines of TrueType fonts; `subject`: of the document.

    No date, no program: equal figures give equal bytes, on machines with the same fonts as for a PNG.
    """
    return _written(
        figure, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None, "Subject": subject}
    )


def _written(figure: Figure, **options: Any) -> bytes:
    """Fix the layout, then write: a layout that is computed at each drawing depends on the number of drawings.

    The engine is removed, because with any engine, even "none", every file needs another drawing.
    """
    target = io.BytesIO()
    with style():
        if (engine := figure.get_layout_engine()) is not None:
            engine.execute(figure)
            figure.set_layout_engine(None)
        given = give_fonts(figure) if options["format"] != "svg" else []
        figure.savefig(target, **options)
        for text in given:
            text.set_fontfamily("sans-serif")
    return target.getvalue()
