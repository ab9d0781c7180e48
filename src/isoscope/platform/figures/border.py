"""Mark values beyond the end of an axis: an axis that holds a far value would squeeze the others."""

from collections.abc import Iterable
from typing import Any

from matplotlib.axes import Axes

MARKED = "Arrow: a value beyond the axis."
"""For captions."""


def mark_below(axes: Axes, low: float, values: Iterable[float], at: Iterable[float], *, colour: str) -> None:
    """Mark each of `values` below `low`, the left end of the axis, with an arrow at the border and its number."""
    for value, place in zip(values, at, strict=True):
        if value < low:
            axes.plot([low], [place], marker="<", color=colour, markersize=5, clip_on=False, gid="beyond")
            beside: dict[str, Any] = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
            axes.annotate(f"{value:.2f}".replace("-", "−"), (low, place), fontsize=6.5, color=colour, **beside)
