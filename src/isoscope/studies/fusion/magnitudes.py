"""Draw the magnitude of each frequency along the hidden index, before and after fusion."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isoscope.figures.snapshots import arms_of, ends, moments_of, over_seeds, prepared, seeds_of
from isoscope.figures.style import INK, WIDTH, legend_below, legend_inches, look, named, style
from isoscope.studies.view import View

PARTS = {"word": "Word embedding", "position": "Position embedding", "fused": "Fused", "normed": "Normalised"}
BINS = 24
"""Number of groups of neighbouring frequencies on a line: single frequencies are mostly noise."""
DASHES: dict[str, tuple[float, Sequence[float]]] = {"first": (0, (3, 1.5)), "chosen": (0, ())}


def frequency_magnitudes(magnitudes: pd.DataFrame) -> Figure:
    """Draw magnitude by frequency, scaled to a mean of 1: a panel per part of the block, a colour per arm.

    Dashed: first snapshot; solid: chosen epoch. Means over groups of neighbouring frequencies and over seeds.
    `magnitudes`: table of a single study with columns arm, seed, step, part, frequency, magnitude. Raises `ValueError`
    for two studies.
    """
    table = ends(prepared(magnitudes, "part", "frequency", "magnitude"))
    group = np.ceil(table["frequency"] / max(1.0, table["frequency"].max() / BINS))
    middle = table.groupby(group)["frequency"].transform("mean")
    table = table.assign(frequency=middle)
    arms, parts = arms_of(table), [part for part in PARTS if part in set(table["part"])]
    with style():
        handles = [
            Line2D([], [], color=look(index)[0], label=named(arm, seeds_of(table[table["arm"] == arm]), 2.0, size=7.5))
            for index, arm in enumerate(arms)
        ]
        for moment, name in moments_of(table).items():
            handles.append(Line2D([], [], color=INK, linestyle=DASHES[moment], label=name))
        figure = Figure(figsize=(WIDTH, 2.3 + legend_inches(handles, 3)), layout="constrained")
        panels = figure.subplots(1, len(parts), squeeze=False, sharex=True, sharey=True)[0]
        for axes, part in zip(panels, parts, strict=True):
            for index, arm in enumerate(arms):
                for moment, dashes in DASHES.items():
                    own = table[(table["arm"] == arm) & (table["part"] == part) & (table["moment"] == moment)]
                    means = over_seeds(own, ["frequency"], "magnitude").sort_values("frequency")
                    axes.plot(
                        *(means["frequency"], means["mean"]),
                        color=look(index)[0],
                        linestyle=dashes,
                        linewidth=1.2,
                        gid=moment,
                    )
            axes.axhline(1.0, color=INK, linewidth=0.6, alpha=0.5)
            axes.set_title(PARTS[part], fontsize=8.5)
            axes.set_xlabel("Frequency", fontsize=8)
            axes.tick_params(labelsize=7)
            axes.grid(visible=True, axis="y")
        panels[0].set_ylabel("Magnitude (mean 1)", fontsize=8)
        panels[0].set_ylim(bottom=0)
        legend_below(figure, handles, columns=3)
    return figure


MAGNITUDES = View(
    name="magnitudes",
    needs=("magnitudes",),
    draw=frequency_magnitudes,
    caption="Which frequencies along the hidden index does fusion amplify? Magnitude of word, position and fused "
    "vectors, scaled to a mean of 1; dashed: first snapshot, solid: chosen epoch.",
)
