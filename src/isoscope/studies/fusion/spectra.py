"""Draw the embedding block as a filter, spectra along the hidden index and its kernel, and its gradients' noise."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from isoscope.platform.figures.maps import pictures
from isoscope.platform.figures.snapshots import (
    EVERY,
    SHARE,
    arms_of,
    at_chosen,
    banded,
    ends,
    keys,
    moments_of,
    over_seeds,
    over_training,
    prepared,
    step_axis,
    trained_seeds_of,
)
from isoscope.platform.figures.style import (
    INK,
    SEQUENTIAL,
    WIDTH,
    legend_below,
    legend_inches,
    look,
    multiples,
    named,
    style,
    wrapped,
)
from isoscope.studies.findings import Untested, by_arm
from isoscope.studies.view import Table, View

PARTS = {"word": "Word embedding", "position": "Position embedding", "fused": "Fused"}
SCALED = PARTS | {"normed": "Normalised"}
BINS = 24
"""Number of groups of neighbouring frequencies on a line: single frequencies are mostly noise."""
DASHES: dict[str, Any] = {"first": (0, (3, 1.5)), "chosen": (0, ())}
ROWS = {"flatness": "Spectral flatness", "dead": "Share of near-dead frequencies"}
THEORY = {"flatness": (0.561, 0.315), "dead": (0.010, 0.045)}
"""Expected values for independent normal entries (flatness e^−γ) and for the circular convolution of two such vectors
(flatness e^−2γ)."""
PLACES = {
    "centre": "the token itself, same hidden index",
    "hidden": "the token itself, other hidden indices",
    "tokens": "neighbouring tokens",
}
SOURCES = {"word": "Word", "token_type": "Token type", "position": "Position"}
CONTROL: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 0.9}
EXPECTED: dict[str, Any] = {"color": INK, "linestyle": (0, (1, 1.5)), "linewidth": 1.0}


@style()
def spectra(spectrum: pd.DataFrame) -> Figure:
    """Draw spectral flatness and near-dead frequencies of word, position and fused embedding over snapshots.

    A line per arm: mean over seeds ± 1 sd. Dashed: control with permuted hidden axes; dotted: theory (`THEORY`).
    """
    table = prepared(spectrum)
    trained = over_training(table)
    rows, columns = {name: wrapped(label, 1.5, size=8) for name, label in ROWS.items()}, _there(PARTS, table["part"])
    one, two = ("{:.3g} and {:.3g}".format(*pair) for pair in zip(*THEORY.values(), strict=True))
    handles = [
        *keys(table, 2.6, trained_seeds_of),
        Line2D([], [], color=INK, label="hidden axes permuted", **CONTROL),
        Line2D([], [], label=f"normal entries: {one}; their convolution: {two}", **EXPECTED),
    ]
    size = (WIDTH, 3.8 + legend_inches(handles, 2))
    figure, panels = multiples(rows, columns, size, across="Update", sharex=True, sharey="row")
    for (name, part), axes in panels.items():
        for index, arm in enumerate(arms_of(table)):
            own = trained[(trained["arm"] == arm) & (trained["part"] == part)]
            control = own.groupby("column")[f"{name}_permuted"].mean()
            axes.plot(control.index, control, gid=f"{name}_permuted", color=look(index)["color"], **CONTROL)
            banded(axes, own, "column", name, marks=6, gid=name, linewidth=1.4, within=SHARE, **look(index))
        for value in THEORY[name]:
            axes.axhline(value, gid="theory", **EXPECTED)
        step_axis(axes, table)
        axes.yaxis.set_major_locator(MaxNLocator(5))
    for axes in panels.values():  # after the last curve of a shared axis
        axes.set_ylim(bottom=0)
    legend_below(figure, handles, columns=2)
    return figure


@style()
def kernel(kernel: pd.DataFrame) -> Figure:
    """Draw the distribution of the fusion kernel's energy over snapshots: a row per arm with a kernel, a column per
    source.

    Values are shares of the whole kernel's energy: the lines of an arm's panels sum to 1. Mean over seeds ± 1 sd.
    Raises `ValueError` if no arm has a kernel.
    """
    table = prepared(kernel)
    arms, sources = arms_of(table), _there(SOURCES, table["source"])
    size = (min(WIDTH, 2.9 * len(sources) + 0.9), 1.7 * len(arms) + 1.0)
    rows = dict.fromkeys(arms, "Share of energy")
    figure, panels = multiples(rows, sources, size, across="Update", sharex=True, sharey=True)
    for (arm, source), axes in panels.items():
        own = table[table["arm"] == arm]
        for index, place in enumerate(PLACES):
            there = over_training(own[own["source"] == source])
            banded(axes, there, "column", place, marks=6, gid=place, within=SHARE, **look(index))
        step_axis(axes, table)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        facts, inches = trained_seeds_of(own), 5.6 / max(len(sources), 2)
        axes.set_title(named(f"{SOURCES[source]}: {arm}", facts, inches, size=8.5), fontsize=8.5)
    axes.set_ylim(bottom=0)  # for all panels, after the last curve: it ends the scaling of the shared axis
    handles = [Line2D([], [], label=label, **look(index)) for index, label in enumerate(PLACES.values())]
    legend_below(figure, handles, columns=2)
    return figure


@style()
def kernel_response(panels: Sequence[tuple[str, npt.NDArray[np.float64]]]) -> Figure:
    """Draw the 2-D frequency response of kernels: a map per (title, matrix), colours from 0 to the maximum of all.

    Matrices `[tokens, hidden]` with zero frequency in the middle, as `isoscope.geometry.kernels.frequency_response`
    returns them.
    """
    high = max(float(np.nanmax(matrix, initial=0.0)) for _, matrix in panels) or 1.0
    figure, grid = pictures(panels, label="Magnitude", low=0.0, high=high, colours=SEQUENTIAL, origin="lower")
    for index, (axes, (_, matrix)) in enumerate(zip(grid, panels, strict=True)):
        rows, columns = (_edges(size) for size in matrix.shape)
        axes.images[0].set_extent((*columns, *rows))
        axes.set(xticks=(-0.4, 0, 0.4), yticks=(-0.4, -0.2, 0, 0.2, 0.4))
        axes.set_xlabel("Cycles per hidden index", fontsize=8)
        axes.set_ylabel("" if index else "Cycles per token", fontsize=8)
    return figure


def _edges(size: int) -> tuple[float, float]:
    """Return the edges of `size` frequencies, each a square with its frequency in the middle."""
    frequencies = np.fft.fftshift(np.fft.fftfreq(size))
    return float(frequencies[0]) - 0.5 / size, float(frequencies[-1]) + 0.5 / size


def _there(names: dict[str, str], found: pd.Series) -> dict[str, str]:
    return {name: label for name, label in names.items() if name in set(found)}


@style()
def frequency_magnitudes(magnitudes: pd.DataFrame) -> Figure:
    """Draw magnitude by frequency, scaled to a mean of 1: a panel per part of the block, a colour per arm.

    Dashed: first snapshot; solid: chosen epoch. Means over groups of neighbouring frequencies and over seeds.
    `magnitudes`: columns arm, seed, step, part, frequency, magnitude.
    """
    table = ends(prepared(magnitudes))
    group = np.ceil(table["frequency"] / max(1.0, table["frequency"].max() / BINS))
    table = table.assign(frequency=table.groupby(group)["frequency"].transform("mean"))
    rows, columns = {"": "Magnitude (mean 1)"}, _there(SCALED, table["part"])
    handles = keys(table, 2.0, marker="")
    handles += [Line2D([], [], color=INK, linestyle=DASHES[at], label=name) for at, name in moments_of(table).items()]
    size = (WIDTH, 2.3 + legend_inches(handles, 3))
    figure, panels = multiples(rows, columns, size, across="Frequency", sharex=True, sharey=True)
    for (_, part), axes in panels.items():
        for (index, arm), (moment, dashes) in product(enumerate(arms_of(table)), DASHES.items()):
            own = table[(table["arm"] == arm) & (table["part"] == part) & (table["moment"] == moment)]
            means = own.groupby("frequency")["magnitude"].mean()
            line: dict[str, Any] = {"color": look(index)["color"], "linestyle": dashes, "linewidth": 1.2}
            axes.plot(means.index, means, gid=moment, **line)
        axes.axhline(1.0, color=INK, linewidth=0.6, alpha=0.5)
    axes.set_ylim(bottom=0)
    legend_below(figure, handles, columns=3)
    return figure


def _flatness(spectrum: pd.DataFrame) -> Iterator[Untested]:
    """Yield the flatness of fused vectors at the chosen epoch, beside the control; a checkpoint has no chosen epoch."""
    if "checkpoint" in spectrum:
        return
    fused = spectrum[spectrum["part"] == "fused"]
    if fused.empty:
        return
    own, (normal, convolved) = at_chosen(prepared(fused)), THEORY["flatness"]
    beside = {"normal entries": normal, "convolution of normal entries": convolved}
    permuted: Any = {"control": "hidden axes permuted", "controls": by_arm(own, "flatness_permuted")}
    yield Untested.of_seeds("Spectral flatness of fused vectors", own, "flatness", beside=beside, **permuted)


SPECTRUM = View(
    name="spectrum",
    needs=("spectrum",),
    draw=spectra,
    caption="Is the spectrum along the hidden index flat? Word, position and fused vectors over training. Compare the "
    "solid lines with the control (dashed: hidden axes permuted) and with theory (dotted). " + EVERY,
    findings=_flatness,
)


def _drawn_response(kernel_response_table: pd.DataFrame) -> Figure:
    panels = kernel_response_table.groupby(["arm", "moment", "source"], sort=False)["magnitudes"]
    return kernel_response(
        [("{}, {}: {}".format(*place), np.stack(list(rows)).astype(float)) for place, rows in panels]
    )


RESPONSE = View(
    name="kernel-response",
    needs=("kernel_response",),
    draw=_drawn_response,
    caption="Frequency response of the fusion's kernel. Brighter: the kernel passes this frequency more strongly; the "
    "middle is frequency 0.",
)
KERNEL = View(
    name="kernel",
    needs=("kernel",),
    draw=kernel,
    caption="Where is the energy of the fusion's kernel, over training? A line per place of its entries; lines of an "
    "arm sum to 1. " + EVERY,
)
MAGNITUDES = View(
    name="magnitudes",
    needs=("magnitudes",),
    draw=frequency_magnitudes,
    caption="Which frequencies along the hidden index does fusion amplify? Magnitude of word, position and fused "
    "vectors, scaled to a mean of 1; dashed: first snapshot, solid: chosen epoch.",
)


GRADED = {
    "word": "Word table",
    "position": "Position table",
    "token_type": "Token-type table",
    "norm": "LayerNorm",
    "fusion": "Fusion",
}
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@style()
def gradient_noise(gradients: pd.DataFrame) -> Figure:
    """Draw the gradient's variance over batches / squared norm of its mean: a panel per part, a line per arm.

    Mean over seeds of the logarithm, band ± 1 sd; both axes are logarithmic. Values that are not above 0 have no
    logarithm and are left out. `gradients`: columns arm, seed, step, part, noise.
    """
    table = prepared(gradients)
    table = table.assign(log=np.log10(table["noise"].where(table["noise"] > 0)))
    columns = _there(GRADED, table.loc[table["log"].notna(), "part"])
    rows = {"": "Gradient: variance over batches\n/ squared norm of the mean"}
    handles = keys(table, 2.0)
    size = (min(WIDTH, 1.9 * max(len(columns), 2) + 0.4), 2.6 + legend_inches(handles, min(3, len(handles))))
    figure, panels = multiples(rows, columns, size, across="Update", sharey=True)
    for (_, part), axes in panels.items():
        for index, arm in enumerate(arms_of(table)):
            own = over_training(table[(table["arm"] == arm) & (table["part"] == part)])
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
    "the mean, over training. Higher: noisier. " + EVERY,
)
