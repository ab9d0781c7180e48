"""Draw the gradient noise of each part of the embedding block over training."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from isoscope.figures.snapshots import arms_of, keys, over_seeds, prepared, step_axis
from isoscope.figures.style import WIDTH, legend_below, legend_inches, look, multiples, style
from isoscope.studies.view import Table, View

PARTS = {
    "word": "Word table",
    "position": "Position table",
    "token_type": "Token-type table",
    "norm": "LayerNorm",
    "fusion": "Fusion",
}
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def gradient_noise(gradients: pd.DataFrame) -> Figure:
    """Draw the gradient's variance over batches / squared norm of its mean: a panel per part, a line per arm.

    Mean over seeds of the logarithm, band ± 1 sd; both axes are logarithmic. Values that are not above 0 have no
    logarithm and are left out. `gradients`: columns arm, seed, step, part, noise.
    """
    table = prepared(gradients)
    table = table.assign(log=np.log10(table["noise"].where(table["noise"] > 0)))
    measured = set(table.loc[table["log"].notna(), "part"])
    columns = {part: label for part, label in PARTS.items() if part in measured}
    rows = {"": "Gradient: variance over batches\n/ squared norm of the mean"}
    with style():
        handles = keys(table, 2.0)
        size = (min(WIDTH, 1.9 * max(len(columns), 2) + 0.4), 2.6 + legend_inches(handles, min(3, len(handles))))
        figure, panels = multiples(rows, columns, size, across="Update", sharey=True)
        for (_, part), axes in panels.items():
            for index, arm in enumerate(arms_of(table)):
                own = table[(table["arm"] == arm) & (table["part"] == part)]
                means = over_seeds(own, ["column"], "log").sort_values("column")
                step, mean, sd = (means[name].to_numpy(dtype=float) for name in ("column", "mean", "sd"))
                axes.plot(step, 10**mean, markersize=3, linewidth=1.3, gid="mean", **look(index))
                low, high = mean - np.nan_to_num(sd), mean + np.nan_to_num(sd)  # a single seed has no sd, so no band
                axes.fill_between(step, 10**low, 10**high, color=look(index)["color"], alpha=0.16, linewidth=0)
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(numticks=8))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: power(value)))
            axes.yaxis.set_minor_formatter(NullFormatter())
            step_axis(axes, table)
        legend_below(figure, handles, columns=min(3, len(handles)))
    return figure


def power(value: float) -> str:
    """Format a power of ten: 10³."""
    return "10" + str(round(np.log10(value))).translate(RAISED)


def _measured(gradients: pd.DataFrame) -> Table:
    """Return no rows if no gradient has a positive noise ratio: there is no curve to draw."""
    return (gradients if gradients["noise"].gt(0).any() else gradients[:0],)


GRADIENTS = View(
    name="gradients",
    needs=("gradients",),
    rows=_measured,
    draw=gradient_noise,
    caption="How noisy is the gradient of each part of the embedding block? Variance over batches / squared norm of "
    "the mean, over training. Higher: noisier.",
)
