"""Draw a small table of texts as a figure: in an SVG the texts stay selectable."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from isoscope.platform.figures.style import BOLD, INK, WIDTH, style, wrapped

ROW = 0.24
"""Inches of a line of text."""
GAP = 0.1
"""Inches between the heads of two columns."""
_SIZE = 8.0


@style()
def text_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    widths: Sequence[float],
    left: int = 1,
    parts: Sequence[int] = (),
) -> Figure:
    """Draw `rows` of texts below a `head`; the first `left` columns are aligned left, the others right.

    `widths`: of the columns, in any unit; `parts`: numbers of the rows that begin a new part, with a line above.
    Heads are wrapped.
    """
    edges = [0.0]
    for width in widths:
        edges.append(edges[-1] + width * WIDTH / sum(widths))
    heads = [wrapped(text, (edges[i + 1] - edges[i] - GAP) / BOLD, size=_SIZE, lines=4) for i, text in enumerate(head)]
    above = ROW * 0.75 * max(text.count("\n") + 1 for text in heads) + 0.1
    height = above + ROW * len(rows) + 0.06
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.set_axis_off()
    for column, text in enumerate(heads):
        _cell(axes, text, edges, column, above - 0.07, column < left, weight="bold", va="bottom")
    for place, row in enumerate(rows):
        at = above + ROW * place
        if place == 0 or place in parts:
            axes.plot([0.02, WIDTH - 0.02], [at, at], color=INK, linewidth=0.9 if place == 0 else 0.4)
        for column, text in enumerate(row):
            _cell(axes, text, edges, column, at + ROW / 2, column < left, va="center")
    figure.set_label("; ".join(", ".join(row) for row in [head, *rows]))
    return figure


def _cell(axes: Axes, text: str, edges: Sequence[float], column: int, at: float, to_left: bool, **options: Any) -> None:
    x = edges[column] + 0.04 if to_left else edges[column + 1] - 0.06
    axes.text(x, at, text, ha="left" if to_left else "right", fontsize=_SIZE, **options)
