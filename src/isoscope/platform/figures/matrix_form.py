"""A form: a coloured cell per pair of values of two columns, such as layer × head, or actual × predicted class."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from isoscope.platform.figures.form import Form, averaged, by_line, first_gap, in_words, numeric, part
from isoscope.platform.figures.style import (
    DIVERGING,
    HATCH,
    SEQUENTIAL,
    WIDTH,
    hatch_key,
    hatched,
    legend_below,
    width,
    wrapped,
)

PER_ROW = 4
"""Pictures in a row."""
TICKS = (5, 13)
"""Maximum number of numbers on the axes x and y; classes and other texts all have a tick."""
WIDEST = 12
"""Texts on the x-axis of up to this number of pictures abreast: more texts leave room for fewer pictures."""
SLACK = 1e-4
"""Tolerance beyond the ends of the colours: by rounding, the cosine of a vector with itself may be 1.0000001."""
ROOM = 64
"""Up to this number of cells, a picture has room for texts."""
HATCHES = ("//////", "xxxxxx", "......")
SQUARE = np.array([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)])
"""Corners around a cell's centre."""
DARK, LIGHT = "#101418", "#ffffff"


@dataclass(frozen=True, kw_only=True)
class Matrix(Form):
    """Draw a picture per value of `columns`, on one colour scale; numbers run upwards, texts downwards.

    A cell with a `gap` is hatched. The note of a picture stands in its title.
    """

    value: str = "value"
    bar: str | Callable[[pd.DataFrame], str] = ""
    """What the colours are. A function makes it of the rows that are drawn."""
    limits: tuple[float | None, float | None] | Callable[[pd.DataFrame], tuple[float | None, float | None]] = (0.0, 1.0)
    """Ends of the colours. None: the end of what is drawn, symmetrical about 0 if the lower end is negative."""
    digits: int | None = None
    """Digits of the value in its cell, where there is room; a column `text` stands there instead. None: no number."""

    def averaged(self, table: pd.DataFrame) -> pd.DataFrame:
        return averaged(table, (self.columns, self.y, self.x), self.value)

    def draw(self, table: pd.DataFrame) -> Figure:
        panels = self.ordered(table, self.columns)
        low, high = self._limits(table)
        texts = 0 if numeric(table, self.x) else table[self.x].nunique()
        across = max(1, min(len(panels), PER_ROW, WIDEST * 2 // max(texts, 6)))
        rows, side = -(-len(panels) // across), min(3.6 if across == 1 else 2.6, (WIDTH - 0.9) / across)
        titles = [self._title(table, one, side) for one in panels]
        wordy = "text" in table or self.digits is not None
        cells = table.groupby(self.columns or self.y)[self.y].nunique().max()
        tall = float(np.clip((0.5 if wordy else 0.2) * cells, 1.3 if wordy else 0.9, side))
        above = 0.45 + 0.15 * max(title.count("\n") + 1 for title in titles)
        figure = Figure(figsize=(side * across + 0.9, (tall + above) * rows), dpi=200, layout="constrained")
        grid = figure.subplots(rows, across, squeeze=False)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        colours = DIVERGING if low < 0 else SEQUENTIAL
        gaps = table["gap"].dropna().unique() if "gap" in table else ()
        kinds = {kind: HATCHES[at % 3] for at, kind in enumerate(gaps)}
        for axes, title, panel in zip(grid.flat, titles, panels, strict=False):
            own, scale = part(table, self.columns, panel), {"cmap": colours, "vmin": low, "vmax": high}
            image = self._picture(axes, own, kinds, side, **scale)
            axes.set_title(title, fontsize=8.5)
        for axes in grid[:, 0]:
            axes.set_ylabel(self.labels[1], fontsize=8)
        for axes in grid.flat[: len(panels)][-across:]:
            axes.set_xlabel(self.labels[0], fontsize=8)
        ends, label = beyond(table[self.value], low, high), self.bar if isinstance(self.bar, str) else self.bar(table)
        label = by_line(label, (tall + above) * rows, 8)
        bar = figure.colorbar(image, ax=grid.ravel().tolist(), aspect=18 * rows, shrink=0.85, label=label, extend=ends)
        bar.ax.tick_params(labelsize=7)
        bar.ax.yaxis.label.set_fontsize(8)
        if kinds:
            legend_below(figure, [hatch_key(kind, hatch) for kind, hatch in kinds.items()], columns=2)
        return figure

    def told(self, table: pd.DataFrame) -> str:
        return f"Cells: {in_words(self, table, (self.columns, self.y, self.x), self.value)}"

    def _limits(self, table: pd.DataFrame) -> tuple[float, float]:
        """Return the ends of the colours."""
        low, high = self.limits(table) if callable(self.limits) else self.limits
        known = table[self.value].dropna()
        least, most = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
        if low is None and least < 0:
            least = min(least, -most)
            most = -least
        low, high = least if low is None else low, most if high is None else high
        return low, high if high > low else low + 1.0

    def _title(self, table: pd.DataFrame, panel: Any, side: float) -> str:
        own = part(table, self.columns, panel)
        notes = own["note"].dropna().unique().tolist()[:1] if "note" in own else []
        return by_line("\n".join([self.called(panel, self.columns), *notes]), side - 0.35, 8.5)

    def _picture(self, axes: Axes, own: pd.DataFrame, kinds: dict[str, str], side: float, **colours: Any) -> Any:
        """Draw the cells of a picture, `side` inches wide, their texts and hatches."""
        ups, acrosses = self.ordered(own, self.y), self.ordered(own, self.x)

        def cells(column: str) -> npt.NDArray[Any]:
            wide = own.pivot(index=self.y, columns=self.x, values=column)
            return wide.reindex(index=ups, columns=acrosses).to_numpy()

        values = cells(self.value).astype(float)
        upwards: Literal["lower", "upper"] = "lower" if numeric(own, self.y) else "upper"
        shown = np.ma.masked_invalid(values)
        image = axes.imshow(shown, origin=upwards, aspect="auto", interpolation="none", **colours)
        if values.size <= ROOM and values.shape[1] * PER_ROW <= ROOM:
            texts = cells("text") if "text" in own else np.vectorize(self._number, otypes=[object])(values)
            self._texts(axes, values, texts, colours["vmin"], colours["vmax"])
        for kind, hatch in kinds.items():
            if len(at := np.argwhere(cells("gap") == kind)):
                look: dict[str, Any] = {"facecolor": "none", "edgecolor": HATCH, "linewidth": 0, "hatch": hatch}
                axes.add_collection(PolyCollection([place + SQUARE for place in at[:, ::-1]], gid=kind, **look))
        if not np.isfinite(values).any():
            hatched(axes, first_gap(own, "no value"))
        names = [self._tick(one) for one in acrosses]
        most = min(TICKS[0], int((side - 0.4) / max(width(one, 6.5) + 0.1 for one in names)))
        _ticks(axes.xaxis, names, numeric(own, self.x) and max(2, most))
        _ticks(axes.yaxis, [self._tick(one) for one in ups], numeric(own, self.y) and TICKS[1])
        axes.spines[:].set_visible(False)
        axes.tick_params(labelsize=6.5, length=2)
        if not numeric(own, self.x):
            axes.tick_params(axis="x", rotation=50)
            for label in axes.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")
        return image

    def _tick(self, value: Any) -> str:
        if isinstance(value, int | float) and value not in self.names:
            return (f"{value:.2g}" if value % 1 else f"{value:g}").replace("-", "−")
        return wrapped(self.called(value), 1.2, size=6.5, lines=1)

    def _number(self, value: float) -> str | None:
        if self.digits is None or not np.isfinite(value):
            return None
        return f"{value:.{self.digits}f}".replace("-", "−")

    def _texts(self, axes: Axes, values: npt.NDArray[Any], texts: npt.NDArray[Any], low: float, high: float) -> None:
        for (row, column), text in np.ndenumerate(texts):
            if isinstance(text, str):
                share = (values[row, column] - low) / (high - low)
                bright = abs(share - 0.5) < 0.3 if low < 0 else share > 0.6
                axes.text(column, row, text, ha="center", va="center", color=DARK if bright else LIGHT, fontsize=6.5)


def beyond(values: npt.ArrayLike, low: float, high: float) -> str:
    """Return the ends of the colour bar that `values` exceed, as matplotlib names them (`extend`)."""
    found = np.ma.masked_invalid(np.asarray(values, dtype=float)).compressed()
    under, over = (found < low - SLACK).any(), (found > high + SLACK).any()
    return ("both" if over else "min") if under else ("max" if over else "neither")


def _ticks(axis: Any, names: list[str], most: int) -> None:
    """Set a tick per name, at most `most` of them; 0: all."""
    every = -(-len(names) // most) if most else 1
    axis.set_ticks(range(0, len(names), every), names[::every])
