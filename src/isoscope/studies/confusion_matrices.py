"""Confusion matrices of a study's arms."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from isoscope.figures.style import style
from isoscope.studies.view import View

PER_ROW = 4
LONGEST = 24
"""How many letters of a class's name fit at a tick."""
WRITTEN = 8
"""With more classes than this, a cell has no room for its count."""
SHADES = LinearSegmentedColormap.from_list("shades", ["#f4f7fa", "#9cc4de", "#2f7fb8", "#0b3c68"])


def confusion_matrices(confusion: pd.DataFrame) -> Figure:
    """Draw a confusion matrix per arm: row = actual class, column = predicted class, counts summed over seeds.

    Colour is the share of the actual class, always from 0 to 1, so that matrices are comparable. The count is below the
    share. `confusion`: table of a single study with columns arm, seed, actual, predicted, count. Classes and arms keep
    the order of their first row. Raises `ValueError` for two studies.
    """
    if "study" in confusion and confusion["study"].nunique() > 1:
        raise ValueError(f"counts of one study expected, got {sorted(confusion['study'].unique())}")
    arms = list(dict.fromkeys(confusion["arm"]))
    classes = list(dict.fromkeys(confusion["actual"]))
    names = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in classes]
    columns = max(1, min(PER_ROW, len(arms)))
    rows = -(-len(arms) // columns) or 1
    side = max(1.7, 0.5 * len(classes))
    below = 0.3 if len(classes) <= 2 else 0.3 + 0.05 * max(len(name) for name in names)
    with style():
        figure = Figure(figsize=((side + 0.2) * columns + 2.2, (side + 0.6) * rows + below + 0.3), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False, sharey=True)
        mesh = None
        for index, (axes, arm) in enumerate(zip(panels.flat, arms, strict=False)):
            table = confusion[confusion["arm"] == arm]
            mesh = _matrix(axes, table, classes)
            axes.set_xticks(range(len(classes)), names)
            axes.set_yticks(range(len(classes)), names)
            if len(classes) > 2:
                for label in axes.get_xticklabels():
                    label.set(rotation=40, ha="right", rotation_mode="anchor")
            axes.tick_params(length=0, labelbottom=index + columns >= len(arms))  # the lowest panel of its column
            seeds = table["seed"].nunique()
            axes.set_title(f"{arm}\nn = {seeds} seed{'s' * (seeds != 1)}", fontsize=9)
        for axes in panels.flat[len(arms) :]:
            axes.set_axis_off()
        figure.supxlabel("Predicted", fontsize=9)
        figure.supylabel("Actual", fontsize=9)
        if mesh is not None:
            figure.colorbar(mesh, ax=panels.ravel().tolist(), label="Share of the actual class", aspect=18 * rows)
    return figure


def _matrix(axes: Axes, table: pd.DataFrame, classes: Sequence[str]) -> QuadMesh:
    counts = table.pivot_table(index="actual", columns="predicted", values="count", aggfunc="sum", fill_value=0)
    counts = counts.reindex(index=classes, columns=classes, fill_value=0).to_numpy()
    total = counts.sum(axis=1, keepdims=True)
    share = np.divide(counts, total, out=np.zeros(counts.shape), where=total > 0)
    for (row, column), value in np.ndenumerate(share):
        text = f"{value:.2f}\n{counts[row, column]}" if len(classes) <= WRITTEN else f"{value:.2f}".lstrip("0")
        colour = "#ffffff" if value > 0.5 else "#101418"
        axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
    axes.spines[:].set_visible(False)
    at = np.arange(len(classes))
    mesh = axes.pcolormesh(at, at, share, cmap=SHADES, vmin=0.0, vmax=1.0, edgecolors="#ffffff", linewidth=1.0)
    axes.set(aspect="equal", xlim=(-0.5, len(classes) - 0.5), ylim=(len(classes) - 0.5, -0.5))
    return mesh


def _hits(confusion: pd.DataFrame) -> str:
    """Return the recall of each class per arm, for screen readers."""
    right = confusion["actual"] == confusion["predicted"]
    parts = []
    for arm, rows in confusion.assign(hits=confusion["count"].where(right, 0)).groupby("arm", sort=False):
        sums = rows.groupby("actual", sort=False)[["hits", "count"]].sum()
        shares = [
            f"{name} {hits / total:.2f}"
            for name, (hits, total) in zip(sums.index, sums.to_numpy(), strict=True)
            if total
        ]
        parts.append(f"{arm}: {', '.join(shares)}")
    return f"Recall of each class. {'; '.join(parts)}." if parts else "No predictions."


CONFUSION = View(
    name="confusion",
    needs=("confusion",),
    draw=confusion_matrices,
    caption=(
        "Confusion matrices on the test split. Colour and upper number: share of the actual class, from 0 to 1; lower "
        "number: count, summed over the seeds."
    ),
    spoken=_hits,
)
