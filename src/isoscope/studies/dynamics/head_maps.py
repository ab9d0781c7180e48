"""Draw the allocation to attention heads: a map of layer × head per arm and stack, raw and normalised."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from isoscope.platform.figures.maps import pictures
from isoscope.platform.figures.style import BOXED, DIVERGING, SEQUENTIAL
from isoscope.studies.dynamics import notes
from isoscope.studies.dynamics.allocated_runs import STACKS, floats, ordered
from isoscope.studies.dynamics.bars import STACK_NAMES
from isoscope.studies.view import View

LABELS = {
    "raw": "Allocation (nats)",
    "sum-abs": "Share of the sum of magnitudes",
    "max-abs": "Allocation over the largest magnitude",
    "min-max": "0: helps most, 1: helps least or hurts most",
}
WRITTEN = 4
"""Up to this number of heads per layer, a cell has room for its value."""


def head_maps(heads: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> Figure:
    """Draw a map per arm and stack: layer (1 at the bottom) by rank of the head; one colour scale for all."""
    kind = heads["normalisation"].iloc[0]
    values = floats(heads["value"])
    largest = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    low, high = {"min-max": (0.0, 1.0), "max-abs": (-1.0, 1.0)}.get(kind, (-largest, largest))
    panels = []
    for arm, own in heads.assign(value=values).groupby("arm", sort=False):
        for stack in ordered(own["stack"], STACKS):
            matrix = own[own["stack"] == stack].pivot(index="layer", columns="rank", values="value")
            panels.append((f"{arm}\n{STACK_NAMES.get(stack, stack)}", matrix))
    figure, grid = pictures(
        [(title, matrix.to_numpy(dtype=float)) for title, matrix in panels],
        label=LABELS[kind],
        low=low,
        high=high,
        colours=SEQUENTIAL if kind == "min-max" else DIVERGING,
        origin="lower",
        aspect="auto",
    )
    for axes, (_, matrix) in zip(grid, panels, strict=True):
        axes.set_xticks(range(matrix.shape[1]), [str(rank) for rank in matrix.columns])
        axes.set_yticks(range(matrix.shape[0]), [str(layer + 1) for layer in matrix.index])
        axes.set_xlabel("Head, by rank in its layer", fontsize=7)
        axes.set_ylabel("Layer", fontsize=7)
        if matrix.shape[1] <= WRITTEN:
            for (row, column), value in np.ndenumerate(matrix.to_numpy(dtype=float)):
                text = f"{value:.2g}".replace("0.", ".").replace("-", "−") * bool(np.isfinite(value))
                axes.text(column, row, text, ha="center", va="center", fontsize=5.5, **BOXED)
    return figure


def _caption(heads: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> str:
    how = {
        "raw": ("in nats", f"in nats, as they are. {notes.SIGN}"),
        "sum-abs": ("as shares", f"over the sum of magnitudes of all heads of the model. {notes.SIGN}"),
        "max-abs": (
            "over the largest",
            f"over the largest magnitude among all heads of the model. {notes.SIGN}",
        ),
        "min-max": ("from most to least", "from 0 (the head that helps most in the model) to 1."),
    }
    name, what = how[heads["normalisation"].iloc[0]]
    return notes.joined(
        f"Which attention heads lower the loss, {name}? A head's rows of query, key and value and its columns of out, "
        f"summed over training, {what}",
        "Heads of a layer are sorted by allocation, since head 3 of one seed is not head 3 of another. Each rank is "
        "the mean over seeds. Sorting alone makes a gradient from left to right.",
        notes.seeds(learned),
        notes.shown(closed),
        notes.untrained(learned),
    )


def _spoken(heads: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> str:
    parts = []
    for arm, own in heads.assign(value=floats(heads["value"])).groupby("arm", sort=False):
        if own["value"].notna().any():
            best = own.loc[own["value"].idxmin()]
            parts.append(f"{arm}: {best['stack']} layer {best['layer'] + 1} rank {best['rank']}, {best['value']:.3g}")
    return f"The head that helps most, {heads['normalisation'].iloc[0]}. {'; '.join(parts)}."


HEADS = View(
    name="head_allocation",
    needs=("heads", "closed", "learned"),
    draw=head_maps,
    by="normalisation",
    caption=_caption,
    spoken=_spoken,
    remakes="Vázquez et al. 2022, attention heads training dynamics",
)
