"""Draw square pictures side by side with a common colour scale and colour bar."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from isoscope.figures.style import WIDTH, style, wrapped

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


def _share(label: str) -> Scale:
    return Scale(label, 0.0, 1.0)


def _cosine(label: str) -> Scale:
    return Scale(label, -1.0, 1.0, diverging=True)


REMOVED = {"": "", "_centred": ", mean removed", "_within": ", class means removed"}
SCALES: dict[str, Scale] = {
    **{
        f"a_{k + 1}{suffix}": _share(f"Share of the {ordinal} direction (a{'₁₂₃'[k]}{removed})")
        for k, ordinal in enumerate(("first", "second", "third"))
        for suffix, removed in REMOVED.items()
    },
    **{
        f"a_1{suffix}_at_n": _share(f"Share of the first direction (a₁{removed}), at equal n")
        for suffix, removed in REMOVED.items()
    },
    "a_1_floor": _share("Share of the first direction (a₁) in noise"),
    "between_share": _share("Share of variance between classes"),
    "isoscore": _share("IsoScore"),
    "isoscore_unbiased": _share("IsoScore, unbiased"),
    "participation_ratio": Scale("Participation ratio (dimensions)"),
    "participation_ratio_unbiased": Scale("Participation ratio, unbiased (dimensions)"),
    "effective_rank": Scale("Effective rank (dimensions)"),
    "log_partition_isotropy": Scale("Log of partition isotropy"),
    "avg_sim": _cosine("Mean cosine, points of different sentences"),
    "self_sim": _cosine("Mean cosine of a word with itself in other sentences"),
    "intra_sim": _cosine("Mean cosine of a word with its sentence"),
    "intra_sim_left_out": _cosine("Mean cosine of a word with the rest of its sentence"),
    "two_nn": Scale("Intrinsic dimension (two neighbours)"),
    "two_nn_at_n": Scale("Intrinsic dimension (two neighbours), at equal n"),
    "mle": Scale("Intrinsic dimension (likelihood)"),
    "mle_at_n": Scale("Intrinsic dimension (likelihood), at equal n"),
    "h0_entropy": Scale("Persistent entropy (nats)"),
    "h0_entropy_share": _share("Persistent entropy, share of its maximum"),
    "silhouette": _cosine("Silhouette of the classes"),
    "fisher_ratio": Scale("Fisher ratio: variance between / within classes"),
    "centroid_distance": Scale("Distance of class means, in spreads"),
    "linear_separability": _share("Held-out accuracy of a linear classifier"),
    "clusters": Scale("Number of clusters"),
    "clusters_silhouette": _cosine("Silhouette of the clusters"),
    "clusters_ami_label": _share("Agreement of clusters with the label"),
    "clusters_ami_first_token": _share("Agreement of clusters with the first token"),
    "clusters_ami_second_token": _share("Agreement of clusters with the second token"),
    "clusters_ami_length": _share("Agreement of clusters with the length"),
    "arch_score": _share("Arch: R² of the second component on a parabola"),
    "arch_score_null": _share("Arch: R² with random signs"),
    "arch_score_p": _share("Arch: p value"),
}
"""Metric → scale. A range is what the metric can take, not what was measured. A metric without an entry uses the
measured range.

Metrics corrected for chance or for n, and a held-out R², can be slightly below 0: colour bars then end in an arrow.
"""


def scale_of(figure: str, values: Iterable[float]) -> Scale:
    """Return the scale of the metric `figure`: its natural range, or else the range of `values` over all panels.

    Without a finite value, the range is None.
    """
    scale = SCALES.get(figure, Scale(figure.replace("_", " ")))
    found = np.ma.masked_invalid(np.array(list(values), dtype=float)).compressed()
    if scale.low is not None or not found.size:
        return scale
    low, high = float(found.min()), float(found.max())
    return scale._replace(low=low, high=high if high > low else low + 1.0)
