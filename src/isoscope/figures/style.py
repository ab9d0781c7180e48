"""What all figures share: colours, sizes, and an SVG whose bytes depend on the data alone."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

ARM_COLOURS = ("#0080c0", "#d55e00", "#009e73", "#b5519f", "#a67c00", "#5b86b0", "#a65628", "#7a7a7a")
"""Each 3 : 1 against a white and a dark page; the first four told apart with the common colour-blindnesses."""
ARM_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Beside the colour, so that no curve is known by colour alone."""
INK = "#1b1f24"
"""Text, axes and grid; a page may replace it by its own colour."""

_SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
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
    "svg.hashsalt": "isoscope",
    "svg.fonttype": "none",  # text stays text: selectable, readable to a screen reader, in any script
}


@contextmanager
def style() -> Iterator[None]:
    """Draw with the project's settings, whatever a user's matplotlibrc says."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def to_svg(figure: Figure) -> str:
    """The figure as SVG text; equal figures give equal text (no date, ids from the content)."""
    target = io.StringIO()
    with style(), warnings.catch_warnings():
        # The page's fonts draw the text, so glyphs that matplotlib's own lacks are no loss.
        warnings.filterwarnings("ignore", message=r"(?s)Glyph \d+ .* missing from font", category=UserWarning)
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return target.getvalue()
