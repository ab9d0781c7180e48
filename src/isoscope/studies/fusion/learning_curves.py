"""How a probe's score grows with the sentences it is trained on."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from isoscope.figures.snapshots import arms_of, over_seeds, seeds_of
from isoscope.figures.style import INK, legend_below, look, named, style
from isoscope.studies.view import View


def learning_curves(learning: pd.DataFrame, *, vectors: str = "first") -> Figure:
    """Held-out accuracy of the label's probe against the number of sentences it is trained on: a line per arm.

    Mean over seeds ± 1 sd, a dotted line at chance; n and d in the title. `learning` of one study. Raises `ValueError`
    where it has no rows for `vectors`.
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
        axes.set_xlabel("Sentences the probe is trained on", fontsize=8)
        axes.set_ylabel("Accuracy on sentences held out", fontsize=8)
        axes.tick_params(labelsize=7)
        axes.grid(visible=True, axis="y")
        legend_below(figure, axes.get_legend_handles_labels()[0], columns=2)
    return figure


LEARNING = View(
    name="learning",
    needs=("learning",),
    draw=learning_curves,
    caption="The label's probe at the last layer of the chosen epoch, trained on fewer and more sentences.",
)
