"""Draw a probe's accuracy by the number of its training sentences."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from isoscope.figures.snapshots import arms_of, over_seeds, seeds_of
from isoscope.figures.style import INK, legend_below, look, named, style
from isoscope.studies.view import View


def learning_curves(learning: pd.DataFrame, *, vectors: str = "first") -> Figure:
    """Draw held-out accuracy of the label probe against the number of its training sentences: a line per arm.

    Mean over seeds ± 1 sd; a dotted line at chance; n and d in the title. `learning`: table of a single study. Raises
    `ValueError` if it has no rows for `vectors`.
    """
    table = learning[learning["vectors"] == vectors]
    if table.empty:
        raise ValueError(f"nothing to draw: no rows for {vectors!r}")
    arms = arms_of(table)
    with style():
        figure = Figure(figsize=(4.6, 3.2), layout="constrained")
        axes = figure.subplots()
        for index, arm in enumerate(arms):
            own = table[table["arm"] == arm]
            means = over_seeds(own, ["trained"], "score").sort_values("trained")
            colour, marker = look(index)
            axes.errorbar(
                *(means["trained"], means["mean"]),
                yerr=np.nan_to_num(means["sd"]),
                color=colour,
                marker=marker,
                elinewidth=0.9,
                label=named(arm, seeds_of(own), 2.0, size=7.5),
            )
        axes.axhline(float(table["chance"].mean()), color=INK, linestyle=(0, (1, 1.5)), linewidth=1.0, label="chance")
        axes.set_title(f"n = {table['n'].max()} sentences, d = {table['d'].max()}", fontsize=8.5)
        axes.set_xlabel("Training sentences of the probe", fontsize=8)
        axes.set_ylabel("Accuracy, held-out sentences", fontsize=8)
        axes.tick_params(labelsize=7)
        axes.grid(visible=True, axis="y")
        legend_below(figure, axes.get_legend_handles_labels()[0], columns=2)
    return figure


LEARNING = View(
    name="learning",
    needs=("learning",),
    draw=learning_curves,
    caption="How many sentences does the label probe need? Held-out accuracy at the last layer of the chosen epoch, by "
    "number of training sentences. Mean over seeds ± 1 sd; dotted: chance.",
)
