"""Draw how well the attention heads of two runs agree, by layer."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from isoscope.figures.snapshots import arms_of
from isoscope.figures.style import INK, WIDTH, hatched, look, named, style, wrapped
from isoscope.studies.view import View

LINES: dict[str, Any] = {"seeds": "solid", "random": (0, (1, 1.2))}


def head_agreement(arm_heads: pd.DataFrame) -> Figure:
    """Draw the agreement of best-matching heads by layer, from 0 to 1.

    Left: a line per pair of arms. Right, as controls: between seeds of an arm (solid), and between an arm and its twin
    with random weights (dotted). Mean over seeds or pairs of seeds, ± 1 sd. `arm_heads`: the table of that name. Raises
    `ValueError` if it is empty.
    """
    if arm_heads.empty:
        raise ValueError("nothing to draw: the table has no rows")
    arms = arms_of(arm_heads)
    between = arm_heads[arm_heads["differ"] == "arms"]
    pairs = list(dict.fromkeys(zip(between["arm"], between["other"], strict=True)))
    with style():
        figure = Figure(
            figsize=(WIDTH, 2.6 + 0.17 * max(-(-len(pairs) // 2), -(-(len(arms) + 2) // 2))), layout="constrained"
        )
        left, right = figure.subplots(1, 2, sharex=True, sharey=True)
        for place, (arm, other) in enumerate(pairs):
            _line(left, between[(between["arm"] == arm) & (between["other"] == other)], place, "solid")
        if not pairs:
            hatched(left, "one arm")
        for place, arm in enumerate(arms):
            for differ, line in LINES.items():
                own = arm_heads[(arm_heads["arm"] == arm) & (arm_heads["differ"] == differ)]
                if len(own):
                    _line(right, own, place, line)
        n = int(arm_heads["n"].max())
        for axes, title in ((left, "Between two arms"), (right, "Between seeds, and with the random twin")):
            axes.set_title(wrapped(title, 3.3, size=8.5), fontsize=8.5)
            axes.set_xlabel("Layer", fontsize=8)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.tick_params(labelsize=7)
            axes.grid(visible=True, axis="y")
        left.set_ylim(-0.02, 1.02)
        left.set_ylabel(f"Agreement of matched heads\n({n} sentences)", fontsize=8)
        left.legend(handles=[_key(place, f"{one} and {other}") for place, (one, other) in enumerate(pairs)], **_BELOW)
        keys = [_key(place, arm) for place, arm in enumerate(arms)]
        kinds = [
            Line2D([], [], color=INK, linestyle=line, label=text)
            for line, text in zip(LINES.values(), ("two seeds", "its random twin"), strict=True)
        ]
        right.legend(handles=[*keys, *kinds], **_BELOW)
    return figure


_BELOW: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "ncols": 2, "fontsize": 7}


def _key(place: int, label: str) -> Line2D:
    colour, marker = look(place)
    return Line2D([], [], color=colour, marker=marker, markersize=3.5, label=named(label, "", 1.5, size=7).strip(", "))


def _line(axes: Axes, rows: pd.DataFrame, place: int, line: Any) -> None:
    colour, marker = look(place)
    means = rows.groupby("layer")["agreement"].agg(["mean", "std"])
    axes.errorbar(
        *(means.index, means["mean"]),
        yerr=np.nan_to_num(means["std"]),
        color=colour,
        marker=marker,
        markersize=3.5,
        linestyle=line,
        linewidth=1.3,
        elinewidth=0.8,
    )


AGREEMENT = View(
    name="arm_heads",
    needs=("arm_heads",),
    draw=head_agreement,
    caption="Do different arms learn the same heads? Agreement of best-matching heads at the chosen epoch. Compare two "
    "arms (left) with the controls (right): two seeds of an arm, and an arm and its random twin.",
)
