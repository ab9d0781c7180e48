"""Draw square pictures side by side with a common colour scale and colour bar."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isoscope.platform.config.declared import natural, title

Floats = npt.NDArray[np.float64]
SLACK = 1e-4
"""Tolerance beyond a range: by rounding, the cosine of a vector with itself may be 1.0000001."""


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
