"""Draw learning curves: the objective's first metric and its loss by epoch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from isoscope.figures.style import INK, legend_below, look, style
from isoscope.studies.view import View

TITLES = {"accuracy": "Accuracy", "loss": "Loss (nats)"}
DASHES: dict[str, Any] = {"train": (0, (4, 2)), "validation": "solid"}


def panels(bands: pd.DataFrame) -> tuple[str, str]:
    """Return the two metrics to draw: the first validation metric other than the loss, and the loss."""
    names = (str(name).removeprefix("validation/") for name in bands["metric"] if str(name).startswith("validation/"))
    return next((name for name in names if name != "loss"), "accuracy"), "loss"


def training_curves(bands: pd.DataFrame) -> Figure:
    """Draw the objective's first metric and its loss by epoch: mean over seeds, band ± 1 sd.

    Train is dashed, validation solid. `bands`: table of a single study with columns arm, metric (`train/accuracy`, …),
    epoch, mean, sd, n. Arms keep the order of their first row. The legend gives n, and the epoch from which fewer
    seeds remain. Raises `ValueError` for two studies.
    """
    if "study" in bands and bands["study"].nunique() > 1:
        raise ValueError(f"bands of one study expected, got {sorted(bands['study'].unique())}")
    arms = list(dict.fromkeys(bands["arm"]))
    with style():
        figure = Figure(figsize=(8.0, 3.9), layout="constrained")
        for axes, quantity in zip(figure.subplots(1, 2), panels(bands), strict=True):
            _panel(axes, bands, arms, quantity)
            axes.set(title=TITLES.get(quantity, quantity.replace("_", " ").capitalize()), xlabel="Epoch")
        legend_below(figure, _legend(bands, arms), columns=min(len(arms) + 1, 3), size=9.0)
    return figure


def _panel(axes: Axes, bands: pd.DataFrame, arms: Sequence[str], quantity: str) -> None:
    for index, arm in enumerate(arms):
        colour, marker = look(index)
        for split, dashes in DASHES.items():
            rows = bands[(bands["arm"] == arm) & (bands["metric"] == f"{split}/{quantity}")].sort_values("epoch")
            epoch, mean, sd = (rows[name].to_numpy(dtype=float) for name in ("epoch", "mean", "sd"))
            solid = split == "validation"
            axes.plot(
                *(epoch, mean),
                color=colour,
                linestyle=dashes,
                marker=marker if solid else "",
                markevery=max(1, len(epoch) // 12),
                linewidth=1.7 if solid else 1.2,
                zorder=3 + solid,
            )
            spread = np.nan_to_num(sd)  # a single seed has no sd, so no band
            axes.fill_between(epoch, mean - spread, mean + spread, color=colour, alpha=0.16, linewidth=0)
    axes.grid(visible=True, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0.03)


def _legend(bands: pd.DataFrame, arms: Sequence[str]) -> list[Line2D]:
    handles = []
    for index, arm in enumerate(arms):
        colour, marker = look(index)
        handles.append(
            Line2D([], [], color=colour, marker=marker, label=f"{arm}, {_seeds(bands[bands['arm'] == arm])}")
        )
    lines = {"train": "train (dashed)", "validation": "validation (solid), band ± 1 sd"}
    return handles + [Line2D([], [], color=INK, linestyle=DASHES[split], label=text) for split, text in lines.items()]


def _seeds(rows: pd.DataFrame) -> str:
    """Return `n = 3`, or `n = 3, from epoch 7: 2` if runs stopped early."""
    by_epoch = rows[rows["metric"].isin([f"{split}/{quantity}" for split in DASHES for quantity in panels(rows)])]
    n = by_epoch.groupby("epoch")["n"].max()
    fewer = "".join(f", from epoch {int(epoch)}: {n[epoch]}" for epoch in n.index[n.diff() < 0])
    return f"n = {n.max() if len(n) else 0}{fewer}"


def _last_epoch(bands: pd.DataFrame) -> str:
    """Return each arm's first validation metric at its last epoch, for screen readers."""
    shown = panels(bands)[0]
    rows = bands[bands["metric"] == f"validation/{shown}"]
    parts = []
    for arm, points in rows.groupby("arm", sort=False):
        last = points.loc[points["epoch"].idxmax()]
        parts.append(f"{arm} {last['mean']:.3f} at epoch {int(last['epoch'])} (n = {int(last['n'])})")
    return f"Validation {shown.replace('_', ' ')}, mean over seeds: {'; '.join(parts)}." if parts else "No curves."


TRAINING = View(
    name="training",
    needs=("bands",),
    draw=training_curves,
    caption=(
        "Learning curves by epoch. Line: mean over seeds (n in the legend); band: ± 1 sd; dashed: train; solid: "
        "validation."
    ),
    spoken=_last_epoch,
    remakes="Li 2025 (fusion), Figure 1",
)
