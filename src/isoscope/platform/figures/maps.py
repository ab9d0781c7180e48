"""Draw square pictures side by side with a common colour scale and colour bar."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isoscope.platform.figures.titles import REMOVED, TITLES, title

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


RANGES: dict[tuple[float, float], tuple[str, ...]] = {
    (0.0, 1.0): (
        *(f"a_{number}{suffix}" for number in (1, 2, 3) for suffix in REMOVED),
        *(f"a_1{suffix}_at_n" for suffix in REMOVED),
        *("a_1_floor", "between_share", "isoscore", "isoscore_unbiased", "h0_entropy_share", "linear_separability"),
        *("repeated_share", "close_share"),
        *("clusters_ami_label", "clusters_ami_first_token", "clusters_ami_second_token", "clusters_ami_length"),
        *("arch_score", "arch_score_null", "arch_score_p"),
        *("accuracy", "f1", "neighbour_accuracy", "ridge_accuracy"),
        *("a_1_clustered", "a_1_clustered_null", "bar_evenness", "normal_cosine", "normal_cosine_shuffled"),
    ),
    (-1.0, 1.0): (
        "avg_sim",
        "self_sim",
        "intra_sim",
        "intra_sim_left_out",
        "silhouette",
        "clusters_silhouette",
        "matthews",
    ),
}
SCALES: dict[str, Scale] = {
    **{name: Scale(title(name)) for name in TITLES},
    **{
        name: Scale(title(name), low, high, diverging=low < 0)
        for (low, high), names in RANGES.items()
        for name in names
    },
}
"""Metric → scale. A range is what the metric can take, not what was measured. A metric without an entry uses the
measured range.

Metrics corrected for chance or for n, and a held-out R², can be slightly below 0: colour bars then end in an arrow.
"""


def natural(metric: str) -> tuple[float | None, float | None]:
    """Return the range of a metric such as `validation/f1`; None: no natural end."""
    return SCALES.get(metric.rpartition("/")[2], Scale(""))[1:3]


def scale_of(figure: str, values: Iterable[float]) -> Scale:
    """Return the scale of the metric `figure`: its natural range, or else the range of `values` over all panels.

    Without a finite value, the range is None.
    """
    scale = SCALES.get(figure, Scale(title(figure)))
    found = np.ma.masked_invalid(np.array(list(values), dtype=float)).compressed()
    if scale.low is not None or not found.size:
        return scale
    low, high = float(found.min()), float(found.max())
    return scale._replace(low=low, high=high if high > low else low + 1.0)
