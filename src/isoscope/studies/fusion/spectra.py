"""Draw the embedding block as a filter: spectra along the hidden index, and the energy of its kernel."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from isoscope.figures.maps import pictures
from isoscope.figures.snapshots import (
    TWIN,
    arms_of,
    banded,
    over_seeds,
    prepared,
    step_axis,
    steps_of,
    trained_seeds_of,
)
from isoscope.figures.style import INK, SEQUENTIAL, WIDTH, legend_below, legend_inches, look, named, style, wrapped
from isoscope.studies.view import View

PARTS = {"word": "Word embedding", "position": "Position embedding", "fused": "Fused"}
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
DASHED, DOTTED = (0, (4, 2)), (0, (1, 1.5))


def spectra(spectrum: pd.DataFrame) -> Figure:
    """Draw spectral flatness and near-dead frequencies of word, position and fused embedding over snapshots.

    A line per arm: mean over seeds ± 1 sd. Dashed: control with permuted hidden axes; dotted: theory (`THEORY`).
    `spectrum`: table of a single study. Raises `ValueError` for two studies.
    """
    table = prepared(spectrum, "part", *ROWS, *(f"{name}_permuted" for name in ROWS))
    table = table[table["column"] != TWIN]
    arms, parts = arms_of(table), [part for part in PARTS if part in set(table["part"])]
    with style():
        handles = _keys(table, arms)
        figure = Figure(figsize=(WIDTH, 3.8 + legend_inches(handles, 2)), layout="constrained")
        panels = figure.subplots(len(ROWS), len(parts), squeeze=False, sharex=True, sharey="row")
        for row, (name, label) in zip(panels, ROWS.items(), strict=True):
            for axes, part in zip(row, parts, strict=True):
                for index, arm in enumerate(arms):
                    rows = table[(table["arm"] == arm) & (table["part"] == part)]
                    colour, marker = look(index)
                    _line(axes, rows, f"{name}_permuted", color=colour, linestyle=DASHED, linewidth=0.9)
                    _line(axes, rows, name, color=colour, marker=marker, linewidth=1.4, band=True)
                for value in THEORY[name]:
                    axes.axhline(value, color=INK, linestyle=DOTTED, linewidth=1.0, gid="theory")
                _finish(axes, steps_of(table))
            row[0].set_ylabel(wrapped(label, 1.5, size=8), fontsize=8)
            row[0].set_ylim(bottom=0)
        for axes, part in zip(panels[0], parts, strict=True):
            axes.set_title(PARTS[part], fontsize=8.5)
        for axes in panels[-1]:
            axes.set_xlabel("Update", fontsize=8)
        legend_below(figure, handles, columns=2)
    return figure


def kernel(kernel: pd.DataFrame) -> Figure:
    """Draw the distribution of the fusion kernel's energy over snapshots: a row per arm with a kernel, a column per
    source.

    Values are shares of the whole kernel's energy: the lines of an arm's panels sum to 1. Mean over seeds ± 1 sd.
    `kernel`: table of a single study. Raises `ValueError` for two studies, or if no arm has a kernel.
    """
    table = prepared(kernel, "source", *PLACES)
    arms, sources = arms_of(table), [source for source in SOURCES if source in set(table["source"])]
    with style():
        figure = Figure(figsize=(min(WIDTH, 2.9 * len(sources) + 0.9), 1.7 * len(arms) + 1.0), layout="constrained")
        panels = figure.subplots(len(arms), len(sources), squeeze=False, sharex=True, sharey=True)
        for row, arm in zip(panels, arms, strict=True):
            own = table[table["arm"] == arm]
            for axes, source in zip(row, sources, strict=True):
                for index, place in enumerate(PLACES):
                    colour, marker = look(index)
                    _line(axes, own[own["source"] == source], place, color=colour, marker=marker, band=True)
                _finish(axes, steps_of(table))
                axes.set_ylim(bottom=0)
                title = named(f"{SOURCES[source]}: {arm}", trained_seeds_of(own), 5.6 / max(len(sources), 2), size=8.5)
                axes.set_title(title, fontsize=8.5)
            row[0].set_ylabel("Share of energy", fontsize=8)
        for axes in panels[-1]:
            axes.set_xlabel("Update", fontsize=8)
        handles = [
            Line2D([], [], color=look(index)[0], marker=look(index)[1], label=label)
            for index, label in enumerate(PLACES.values())
        ]
        legend_below(figure, handles, columns=2)
    return figure


def kernel_response(panels: Sequence[tuple[str, npt.ArrayLike]]) -> Figure:
    """Draw the 2-D frequency response of kernels: a map per (title, matrix), colours from 0 to the maximum of all.

    Matrices `[tokens, hidden]` with zero frequency in the middle, as `isoscope.geometry.kernels.frequency_response`
    returns them. Raises `ValueError` for a negative number, for an array that is no matrix, and without matrices.
    """
    matrices = [(title, np.asarray(matrix, dtype=float)) for title, matrix in panels]
    if not matrices:
        raise ValueError("nothing to draw: no matrix given")
    for title, matrix in matrices:
        if matrix.ndim != 2 or np.nanmin(matrix, initial=0.0) < 0:
            raise ValueError(f"{title}: expected magnitudes [tokens, hidden], got {list(matrix.shape)}")
    high = max(float(np.nanmax(matrix, initial=0.0)) for _, matrix in matrices) or 1.0
    figure, grid = pictures(
        matrices,
        label="Magnitude",
        low=0.0,
        high=high,
        colours=SEQUENTIAL,
        origin="lower",
    )
    with style():
        for index, (axes, (_, matrix)) in enumerate(zip(grid, matrices, strict=True)):
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


def _line(axes: Axes, rows: pd.DataFrame, value: str, *, band: bool = False, **options: Any) -> None:
    means = over_seeds(rows, ["column"], value)
    if band:
        banded(axes, means, "column", marks=6, alpha=0.16, gid=value, **options)
    else:
        means = means.sort_values("column")
        axes.plot(means["column"], means["mean"], gid=value, **options)


def _finish(axes: Axes, steps: Sequence[int]) -> None:
    step_axis(axes, steps)
    axes.tick_params(labelsize=7)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.grid(visible=True, axis="y")


def _who(table: pd.DataFrame, arm: str) -> str:
    return named(arm, trained_seeds_of(table[table["arm"] == arm]), 2.6, size=7.5)


def _keys(table: pd.DataFrame, arms: Sequence[str]) -> list[Line2D]:
    """Return the legend entries of the spectra."""
    handles = [
        Line2D([], [], color=look(index)[0], marker=look(index)[1], label=_who(table, arm))
        for index, arm in enumerate(arms)
    ]
    one, two = ("{:.3g} and {:.3g}".format(*pair) for pair in zip(*THEORY.values(), strict=True))
    handles += [
        Line2D([], [], color=INK, linestyle=DASHED, linewidth=0.9, label="hidden axes permuted"),
        Line2D(
            [],
            [],
            color=INK,
            linestyle=DOTTED,
            linewidth=1.0,
            label=f"normal entries: {one}; their convolution: {two}",
        ),
    ]
    return handles


def _drawn_response(kernel_response_table: pd.DataFrame) -> Figure:
    panels = kernel_response_table.groupby(["arm", "moment", "source"], sort=False)["magnitudes"]
    return kernel_response([("{}, {}: {}".format(*place), np.stack(list(rows))) for place, rows in panels])


SPECTRUM = View(
    name="spectrum",
    needs=("spectrum",),
    draw=spectra,
    caption="Is the spectrum along the hidden index flat? Word, position and fused vectors over training. Compare the "
    "solid lines with the control (dashed: hidden axes permuted) and with theory (dotted).",
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
    "arm sum to 1.",
)
