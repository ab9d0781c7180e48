"""A form: a point per row, at two of its numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from isoscope.platform.figures.form import Form, below, first_gap, in_words, looks, noted, part, series_keys
from isoscope.platform.figures.style import INK, SEQUENTIAL, SHAPES, hatched, look

CLASSES = 10
"""Of more series, the largest have a colour."""
TURNS = 8
"""Series are drawn in turns, so that none covers another."""


@dataclass(frozen=True, kw_only=True)
class Scatter(Form):
    """Draw a point per row. Panels share an axis that has a label; without any label, a panel fills its frame."""

    series: str = ""
    shade: str = ""
    """Column of numbers that colour the points instead of the series, from dark to light, if there are any."""
    means: str = ""
    """Column by which points are averaged, too: large marks ± 1 sd. A line joins the means of a series."""
    beside: str = ""
    """Column of texts that stand beside the means, or beside the points."""
    square: Literal["", "equal", "diagonal"] = ""
    """Equal scales of both axes; diagonal: with the line of equal numbers."""

    def draw(self, table: pd.DataFrame) -> Figure:
        shared = {"sharex": bool(self.labels[0]), "sharey": bool(self.labels[1])}
        wide = 6.4 / max(len(self.ordered(table, self.columns)), 1)
        high = min(2.6, wide + 0.2) if self.square else 2.2
        figure, panels = self.grid(table, high if any(self.labels) else 1.3, **shared)
        figure.set_dpi(200)
        styles = {"": look(0)}
        if self.series:
            styles = looks(self, table, self.series, table.groupby(self.series).size(), CLASSES)
        plain: dict[str, Any] = {"rasterized": len(table) > SHAPES, "linewidths": 0, "alpha": 0.75, "zorder": 3}
        shades: dict[str, Any] = {}
        if self._shaded(table):  # one scale for all panels, as the bar says
            shades = {"norm": Normalize(table[self.shade].min(), table[self.shade].max()), "cmap": SEQUENTIAL}
        for place, axes in panels.items():
            own = self.of_panel(table, place)
            self._points(axes, own, styles, shades, **plain)
            if self.means:
                self._means(axes, own, styles)
            self._frame(axes, own, table)
        if shades:
            figure.colorbar(
                ScalarMappable(**shades), ax=[*panels.values()], label=self.called(self.shade), shrink=0.7, aspect=25
            )
        below(figure, series_keys(self, self.series, styles, linestyle="") if self.series else [])
        return figure

    def told(self, table: pd.DataFrame) -> str:
        keys = [key for key in (self.rows, self.columns, self.series) if key]
        counts = table.groupby(keys or [self.x], sort=False, dropna=False).size().reset_index(name="points")
        return f"Number of points: {in_words(self, counts, keys, 'points')}"

    def _shaded(self, table: pd.DataFrame) -> bool:
        return self.shade in table and bool(table[self.shade].notna().any())

    def _points(
        self, axes: Axes, own: pd.DataFrame, styles: Mapping[Any, Any], shades: Mapping[str, Any], **plain: Any
    ) -> None:
        size = 5.0 if len(own) > 60 else 26.0
        if self._shaded(own):
            axes.scatter(own[self.x], own[self.y], c=own[self.shade], s=size, gid="points", **shades, **plain)
            return
        for turn in range(TURNS):
            for series, drawn in styles.items():
                some = part(own, self.series, series).iloc[turn::TURNS]
                mark = {"color": drawn["color"], "marker": drawn["marker"] or ".", "s": size}
                if len(some):
                    axes.scatter(some[self.x], some[self.y], gid=f"{self.series}:{series}", **mark, **plain)

    def _means(self, axes: Axes, own: pd.DataFrame, styles: Mapping[Any, Any]) -> None:
        for series, rows in own.groupby(self.series, sort=False):
            groups, colour = rows.groupby(self.means, sort=False), styles[series]["color"]
            means, sds = (groups[[self.x, self.y]].agg(how) for how in ("mean", "std"))
            axes.plot(means[self.x], means[self.y], color=colour, linewidth=0.8, alpha=0.6)
            texts = groups[self.beside].first() if self.beside and len(means) > 1 else {}
            for name, (x, y) in zip(means.index, means.to_numpy(), strict=True):
                error = dict(zip(("xerr", "yerr"), sds.loc[name].fillna(0.0), strict=True))
                axes.errorbar(x, y, markersize=7, elinewidth=1, **styles[series] | error)
                if len(texts):
                    beside: dict[str, Any] = {"xytext": (4, 4), "textcoords": "offset points", "fontsize": 6.5}
                    axes.annotate(str(texts[name]), (x, y), color=colour, **beside)

    def _frame(self, axes: Axes, own: pd.DataFrame, table: pd.DataFrame) -> None:
        axes.grid(visible=any(self.labels))
        if not len(own) or not np.isfinite(own[[self.x, self.y]].astype(float)).all(axis=1).any():
            hatched(axes, first_gap(own, "no point"))
        if not any(self.labels):
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set(visible=True, linewidth=0.5)
        axes.margins(0.06)
        if self.square:
            axes.set_aspect("equal")
        if self.square == "diagonal":
            reach = 1.05 * float(table[[self.x, self.y]].max().max())
            axes.plot([0, reach], [0, reach], color=INK, linewidth=0.7, zorder=1, gid="equal")
        noted(axes, own)
