"""A form: values with their intervals, a row per name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isoscope.platform.figures.form import (
    Form,
    averaged,
    below,
    in_words,
    looks,
    noted,
    numeric,
    part,
    seeds_text,
    series_keys,
)
from isoscope.platform.figures.style import INK, hatched, wrapped

MARKED = "Arrow: a value beyond the axis."
"""For captions."""


def mark_below(axes: Axes, low: float, values: Iterable[float], at: Iterable[float], *, colour: str) -> None:
    """Mark each of `values` below `low`, the left end of the axis, with an arrow at the border and its number."""
    for value, place in zip(values, at, strict=True):
        if value < low:
            axes.plot([low], [place], marker="<", color=colour, markersize=5, clip_on=False, gid="beyond")
            beside: dict[str, Any] = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
            axes.annotate(f"{value:.2f}".replace("-", "−"), (low, place), fontsize=6.5, color=colour, **beside)


FILLS: tuple[Any, ...] = ("full", "none", "left", "top")
"""How markers are filled, from the last value of a column to its first."""
ROW = 0.21
"""Inches per row, at least; series in a row have an inch's ninth each, layers half of it."""
STROKES = ("|", 2, 3)
"""Markers of what the values are compared with."""


@dataclass(frozen=True, kw_only=True)
class Intervals(Form):
    """Draw the mean of `x` and its interval in the row `y`; small dots are the values that it is the mean of.

    Rows that are numbers have no names.
    """

    series: str = ""
    """Column whose values share a row, each with a colour and a marker."""
    fill: str = ""
    """Column whose values differ in how their marker is filled: the last is full, that before it hollow."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Column that the values are compared with, drawn as a stroke → its name in the legend."""
    limits: tuple[float | None, float | None] = (None, None)
    """Ends of the x-axis, if fixed. Values below the left end have an arrow and their number."""

    def averaged(self, table: pd.DataFrame) -> pd.DataFrame:
        places = (self.rows, self.columns, self.series, self.fill, self.y)
        found = averaged(table, places, self.x)
        keys = [name for name in dict.fromkeys(places) if name]
        own = table.groupby(keys, sort=False, dropna=False)[self.x].apply(lambda values: [*values.astype(float)])
        return found.assign(single=own.to_numpy())

    def draw(self, table: pd.DataFrame) -> Figure:
        names = self.ordered(table, self.y)
        styles = looks(self, table, self.series)
        kinds = self.ordered(table, self.fill)
        fills = dict(zip(kinds, FILLS[: len(kinds)][::-1], strict=False))
        high = len(names) * max(ROW, (0.055 if numeric(table, self.series) else 0.11) * len(styles))
        high = min(high, 2.2) if numeric(table, self.y) else high + 0.4
        shared = {"sharey": True, "sharex": "col" if self.rows and self.columns else bool(self.labels[0])}
        figure, panels = self.grid(table, max(1.2, high), **shared)
        for place, axes in panels.items():
            self._panel(axes, self.of_panel(table, place), names, styles, fills)
        for axes in panels.values():  # once all are drawn: a limit ends the choice of the other
            for end, limit in zip(("left", "right"), self.limits, strict=True):
                if limit is not None:
                    axes.set_xlim(**{end: limit})  # type: ignore[arg-type]
        below(figure, self._keys(table, styles, fills), seeds_text(table))
        return figure

    def told(self, table: pd.DataFrame) -> str:
        keys = (self.rows, self.columns, self.series, self.fill, self.y)
        return f"Values: {in_words(self, table, keys, self.x)}"

    def _panel(
        self, axes: Axes, rows: pd.DataFrame, names: list[Any], styles: Mapping[Any, Any], fills: Mapping[Any, Any]
    ) -> None:
        step = 0.76 / len(styles)
        for (place, (series, look)), (fill, filled) in product(enumerate(styles.items()), fills.items()):
            own = part(part(rows, self.series, series), self.fill, fill)
            at = [names.index(name) + (place - (len(styles) - 1) / 2) * step for name in own[self.y]]
            colour, gid = look["color"], f"{self.series}:{series}"
            width = 2.0 if "outer_low" in own else 1.1
            axes.hlines(at, own["low"], own["high"], color=colour, linewidth=width, gid=gid)
            if "outer_low" in own:
                axes.hlines(at, own["outer_low"], own["outer_high"], color=colour, linewidth=0.9, gid="outer")
            mark = look | {"fillstyle": filled, "linestyle": "", "markersize": 5 if filled == "full" else 6.5}
            if own[self.x].notna().any() and not numeric(rows, self.y):
                axes.plot(own[self.x], at, gid=gid, **mark)
            for height, values in zip(at, own["single"], strict=True):
                if len(values) > 1:
                    axes.plot(values, [height] * len(values), ".", color=colour, markersize=2.5, gid="single")
                if self.limits[0] is not None:
                    mark_below(axes, self.limits[0], values, [height] * len(values), colour=colour)
            for column, stroke in zip(self.beside, STROKES, strict=False):
                axes.plot(own[column], at, marker=stroke, color=INK, markersize=8, linestyle="", gid=column)
        axes.grid(visible=True, axis="x")
        plain = numeric(rows, self.y)
        axes.set_yticks([] if plain else range(len(names)))
        if not plain:
            lines = [[wrapped(line, 1.9, size=7.5) for line in self.called(name).split("\n")] for name in names]
            axes.set_yticklabels(["\n".join(one) for one in lines], fontsize=7.5)
        axes.set_ylim(len(names) - 0.4, -0.6)
        if not np.isfinite(rows[self.x]).any():
            hatched(axes, "no value")
        noted(axes, rows)

    def _keys(self, table: pd.DataFrame, styles: Mapping[Any, Any], fills: Mapping[Any, Any]) -> list[Any]:
        handles = series_keys(self, self.series, styles, linestyle="") if self.series else []
        plain: dict[str, Any] = {"color": INK, "linestyle": "", "marker": "o"}
        if len(fills) > 1:
            handles += [Line2D([], [], fillstyle=one, label=self.called(fill), **plain) for fill, one in fills.items()]
        for (column, label), stroke in zip(self.beside.items(), STROKES, strict=False):
            if table[column].notna().any():
                handles.append(Line2D([], [], label=label, **plain | {"marker": stroke, "markersize": 8}))
        return handles
