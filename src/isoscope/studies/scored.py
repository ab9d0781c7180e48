"""Views of the scores of any study: learning curves, and confusion matrices of its arms."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from isoscope.platform.config.declared import natural
from isoscope.platform.config.declared import title as title_of
from isoscope.platform.figures.snapshots import arms_of, band, seeds_of
from isoscope.platform.figures.style import INK, arm_name, legend_below, look, style, tiles, wrapped
from isoscope.platform.outputs import metrics_in
from isoscope.studies.curves import drawn
from isoscope.studies.view import View

DASHES: dict[str, Any] = {"train": (0, (4, 2)), "validation": "solid"}
LINES: dict[str, Any] = {
    "train": {"linewidth": 1.2, "zorder": 3, "marker": ""},
    "validation": {"linewidth": 1.7, "zorder": 4},
}
KEYS = {"train": "train (dashed)", "validation": "validation (solid)"}
PUBLISHED = {"additive", "conv2d", "fft"}
"""Fusions whose learning curves are published."""
PER_ROW = 4
LONGEST = 24
"""How many letters of a class's name fit at a tick."""
WRITTEN = 8
"""With more classes than this, a cell has no room for its count."""
SHADES = LinearSegmentedColormap.from_list("shades", ["#f4f7fa", "#9cc4de", "#2f7fb8", "#0b3c68"])


@style()
def training_curves(
    bands: pd.DataFrame, seeds: pd.DataFrame | None = None, metrics: pd.DataFrame | None = None
) -> Figure:
    """Draw the objective's two metrics (`drawn`) by epoch: mean over seeds, band ± 1 sd; thin: validation by seed.

    Train is dashed, validation solid. `bands`: table of a single study with columns arm, metric (`train/accuracy`, …),
    epoch, mean, sd, n. Arms keep the order of their first row. The legend gives n, and the epoch from which fewer
    seeds remain. `metrics`: what the objectives declare, for titles and ranges.
    """
    arms, own = arms_of(bands), {} if metrics is None else metrics_in(metrics)
    figure = Figure(figsize=(8.0, 3.9), layout="constrained")
    for axes, quantity in zip(figure.subplots(1, 2), drawn(bands["metric"]), strict=True):
        for (index, arm), (split, dashes) in product(enumerate(arms), DASHES.items()):
            rows = bands[(bands["arm"] == arm) & (bands["metric"] == f"{split}/{quantity}")].sort_values("epoch")
            epoch, mean, sd = (rows[name].to_numpy(dtype=float) for name in ("epoch", "mean", "sd"))
            line = look(index) | {"linestyle": dashes, "markevery": max(1, len(epoch) // 12)} | LINES[split]
            axes.plot(epoch, mean, gid=arm_name(arm), **line)
            low, high = band(mean, sd, natural(quantity, own))
            filled: dict[str, Any] = {"color": line["color"], "alpha": 0.16, "linewidth": 0}
            axes.fill_between(epoch, low, high, gid=arm_name(arm), **filled)
            if seeds is not None and split == "validation":
                _thin(axes, seeds[(seeds["arm"] == arm) & (seeds["metric"] == f"{split}/{quantity}")], arm, line)
        axes.grid(visible=True, axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.margins(x=0.03)
        axes.set_title(wrapped(title_of(quantity, own), 3.4, size=10), fontsize=10)
        axes.set_xlabel("Epoch")
    handles = [
        Line2D([], [], label=f"{arm}, {_seeds(bands[bands['arm'] == arm])}", gid=arm_name(arm), **look(index))
        for index, arm in enumerate(arms)
    ]
    banded = ", band ± 1 sd" * bool(bands["sd"].notna().any())
    handles += [
        Line2D([], [], color=INK, linestyle=DASHES[split], label=text + banded * (split == "validation"))
        for split, text in KEYS.items()
    ]
    legend_below(figure, handles, columns=min(len(arms) + 1, 3), size=9.0)
    return figure


def _thin(axes: Axes, rows: pd.DataFrame, arm: str, line: Mapping[str, Any]) -> None:
    """Draw a thin line per seed, if there are several."""
    if rows["seed"].nunique() > 1:
        for seed, own in rows.sort_values("epoch").groupby("seed"):
            at, values = (own[name].to_numpy(dtype=float) for name in ("epoch", "value"))
            thin: dict[str, Any] = {"color": line["color"], "linewidth": 0.6, "alpha": 0.55, "zorder": 2}
            axes.plot(at, values, gid=arm_name(arm, int(str(seed))), **thin)


def _seeds(rows: pd.DataFrame) -> str:
    """Return `n = 3`, or `n = 3, from epoch 7: 2` if runs stopped early."""
    by_epoch = rows[
        rows["metric"].isin([f"{split}/{quantity}" for split in DASHES for quantity in drawn(rows["metric"])])
    ]
    n = by_epoch.groupby("epoch")["n"].max()
    fewer = "".join(f", from epoch {int(epoch)}: {n[epoch]}" for epoch in n.index[n.diff() < 0])
    return f"n = {n.max() if len(n) else 0}{fewer}"


def _curves_caption(bands: pd.DataFrame, seeds: pd.DataFrame, metrics: pd.DataFrame) -> str:
    thin = "; thin: each seed" if len(seeds) and seeds.groupby("arm")["seed"].nunique().max() > 1 else ""
    several = "mean over seeds (n in the legend); band: ± 1 sd" if bands["sd"].notna().any() else "the only seed"
    return f"Learning curves by epoch. Line: {several}; dashed: train; solid: validation{thin}."


def _last_epoch(bands: pd.DataFrame, seeds: pd.DataFrame, metrics: pd.DataFrame) -> str:
    """Return each arm's first validation metric at its last epoch, for screen readers."""
    shown = drawn(bands["metric"])[0]
    rows = bands[bands["metric"] == f"validation/{shown}"]
    parts = [
        f"{last.arm} {last.mean:.3f} at epoch {int(last.epoch)} (n = {int(last.n)})"
        for last in rows.loc[rows.groupby("arm", sort=False)["epoch"].idxmax()].itertuples()
    ]
    return f"Validation {shown.replace('_', ' ')}, mean over seeds: {'; '.join(parts)}." if parts else "No curves."


@style()
def confusion_matrices(confusion: pd.DataFrame) -> Figure:
    """Draw a confusion matrix per arm: row = actual class, column = predicted class, counts summed over seeds.

    Colour is the share of the actual class, always from 0 to 1, so that matrices are comparable. The count is below the
    share. `confusion`: columns arm, seed, actual, predicted, count. Classes and arms keep the order of their first row.
    """
    arms = arms_of(confusion)
    classes = list(dict.fromkeys(confusion["actual"]))
    names = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in classes]
    columns = min(PER_ROW, len(arms))
    side = max(1.7, 0.5 * len(classes))
    below = 0.3 if len(classes) <= 2 else 0.3 + 0.05 * max(len(name) for name in names)
    size = ((side + 0.2) * columns + 2.2, side + 0.6, below, 0.3)
    figure, panels = tiles(len(arms), PER_ROW, size, ticks=9, grid=None, sharex=True, sharey=True)
    every = figure.axes
    for axes, arm in zip(panels, arms, strict=True):
        table = confusion[confusion["arm"] == arm]
        mesh = _matrix(axes, table, classes)
        turned: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if len(classes) > 2 else {}
        axes.set_xticks(range(len(classes)), names, **turned)
        axes.set_yticks(range(len(classes)), names)
        axes.tick_params(length=0)
        axes.set_title(f"{arm}\n{seeds_of(table)}", fontsize=9)
    figure.supxlabel("Predicted", fontsize=9)
    figure.supylabel("Actual", fontsize=9)
    figure.colorbar(mesh, ax=every, label="Share of the actual class", aspect=18 * len(every) // columns)
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


def _remakes(bands: pd.DataFrame, seeds: pd.DataFrame, metrics: pd.DataFrame) -> str | None:
    """Return the published figure of fusions' learning curves, if several of them are compared."""
    found = PUBLISHED & {word for arm in bands["arm"] for word in str(arm).split("-")}
    return "Li 2025 (fusion), Figure 1" if len(found) > 1 else None


TRAINING = View(
    name="training",
    needs=("bands", "seeds", "metrics"),
    draw=training_curves,
    caption=_curves_caption,
    spoken=_last_epoch,
    remakes=_remakes,
)
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
VIEWS = (TRAINING, CONFUSION)
