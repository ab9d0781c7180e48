"""Draw the gradient noise of each part of the embedding block over training."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from isoscope.figures.snapshots import arms_of, over_seeds, prepared, seeds_of, step_axis, steps_of
from isoscope.figures.style import WIDTH, legend_below, legend_inches, look, named, style
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
    logarithm and are left out. `gradients`: table of a single study with columns arm, seed, step, part, noise. Raises
    `ValueError` for two studies, or if no part has gradients.
    """
    table = prepared(gradients, "part", "noise")
    table = table.assign(log=np.log10(table["noise"].where(table["noise"] > 0)))
    arms, parts = arms_of(table), [part for part in PARTS if part in set(table.loc[table["log"].notna(), "part"])]
    if not parts:
        raise ValueError("nothing to draw: no part of the block has gradients")
    with style():
        handles = []
        for index, arm in enumerate(arms):
            colour, marker = look(index)
            label = named(arm, seeds_of(table[table["arm"] == arm]), 2.0, size=7.5)
            handles.append(Line2D([], [], color=colour, marker=marker, label=label))
        height = 2.6 + legend_inches(handles, min(3, len(arms)))
        figure = Figure(figsize=(min(WIDTH, 1.9 * max(len(parts), 2) + 0.4), height), layout="constrained")
        panels = figure.subplots(1, len(parts), squeeze=False, sharey=True)[0]
        for axes, part in zip(panels, parts, strict=True):
            for index, arm in enumerate(arms):
                rows = table[(table["arm"] == arm) & (table["part"] == part)]
                means = over_seeds(rows, ["column"], "log").sort_values("column")
                step, mean, sd = (means[name].to_numpy(dtype=float) for name in ("column", "mean", "sd"))
                colour, marker = look(index)
                axes.plot(step, 10**mean, color=colour, marker=marker, markersize=3, linewidth=1.3, gid="mean")
                spread = np.nan_to_num(sd)  # a single seed has no sd, so no band
                axes.fill_between(
                    step, 10 ** (mean - spread), 10 ** (mean + spread), color=colour, alpha=0.16, linewidth=0
                )
            axes.set_title(PARTS[part], fontsize=8.5)
            axes.set_xlabel("Update", fontsize=8)
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(numticks=8))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: power(value)))
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.tick_params(labelsize=7)
            axes.grid(visible=True, axis="y")
            step_axis(axes, steps_of(table))
        panels[0].set_ylabel("Gradient: variance over batches\n/ squared norm of the mean", fontsize=8)
        legend_below(figure, handles, columns=min(3, len(arms)))
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
