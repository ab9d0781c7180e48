"""Draw square pictures side by side with a common colour scale and colour bar."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from isoscope.platform.config.declared import natural, title
from isoscope.platform.figures.style import WIDTH, style, wrapped

Floats = npt.NDArray[np.float64]
PER_ROW = 4
SLACK = 1e-4
"""Tolerance beyond a range: by rounding, the cosine of a vector with itself may be 1.0000001."""


def pictures(
    panels: Sequence[tuple[str, Floats]], *, label: str, low: float, high: float, colours: str, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Draw a picture for each (title, matrix). Return the figure, and its panels for further drawing.

    `options` go to `imshow`. NaN stays empty. The colour bar ends in an arrow if values exceed the range.
    """
    columns = min(PER_ROW, len(panels))
    rows = -(-len(panels) // columns)
    side = min(2.6, (WIDTH - 0.9) / columns)
    titles = [
        "\n".join(wrapped(line, side - 0.35, size=8.5, lines=3) for line in title.split("\n")) for title, _ in panels
    ]
    above = 0.2 + 0.15 * max(2, *(title.count("\n") + 1 for title in titles))
    with style():
        figure = Figure(figsize=(side * columns + 0.9, (side + above) * rows), dpi=200, layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, title, (_, matrix) in zip(grid.flat, titles, panels, strict=False):
            shown = np.ma.masked_invalid(matrix)
            image = axes.imshow(shown, cmap=colours, vmin=low, vmax=high, interpolation="none", **options)
            axes.set_title(title, fontsize=8.5)
            axes.spines[:].set_visible(False)
            axes.tick_params(labelsize=6.5, length=2)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        ends = beyond(np.concatenate([np.ravel(matrix) for _, matrix in panels]), low, high)
        bar = figure.colorbar(image, ax=grid.ravel().tolist(), aspect=18 * rows, shrink=0.85, label=label, extend=ends)
        bar.ax.tick_params(labelsize=7)
        bar.ax.yaxis.label.set_fontsize(8)
    return figure, list(grid.flat[: len(panels)])


def beyond(values: npt.ArrayLike, low: float | None, high: float | None) -> str:
    """Return the ends of the colour bar that `values` exceed, as matplotlib names them (`extend`)."""
    found = np.ma.masked_invalid(np.asarray(values, dtype=float)).compressed()
    under = low is not None and (found < low - SLACK).any()
    over = high is not None and (found > high + SLACK).any()
    return ("both" if over else "min") if under else ("max" if over else "neither")


class Scale(NamedTuple):
    """A metric's label and natural range (None: no natural range); `diverging`: colours diverge from 0."""

    label: str
    low: float | None = None
    high: float | None = None
    diverging: bool = False


def scale_of(figure: str, values: Iterable[float]) -> Scale:
    """Return the scale of the metric `figure`: its natural range, or else the range of `values` over all panels.

    A range is what the metric can take, not what was measured: beyond it, a colour bar ends in an arrow. Without a
    finite value, there is no range.
    """
    low, high = natural(figure)
    diverging = low is not None and low < 0
    found = np.ma.masked_invalid(np.array(list(values), dtype=float)).compressed()
    if found.size:
        low = float(found.min()) if low is None else low
        high = max(float(found.max()), low) if high is None else high
        high = high if high > low else low + 1.0
    elif None in (low, high):
        low = high = None
    return Scale(title(figure), low, high, diverging)
