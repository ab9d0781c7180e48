"""Two forms of lines: over updates, ranks or frequencies (`Curves`), and over layers (`Profile`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, MultipleLocator, NullFormatter

from isoscope.platform.figures.form import (
    Form,
    averaged,
    below,
    first_gap,
    in_words,
    looks,
    noted,
    part,
    seeds_text,
    series_keys,
)
from isoscope.platform.figures.style import HATCH, INK, hatched, layer_tick

DASHES: tuple[Any, ...] = ("solid", (0, (1, 1.2)), (0, (4, 2)), (0, (6, 1.5, 1, 1.5)), (0, (8, 2)))
BESIDE: tuple[Any, ...] = ((0, (4, 2)), (0, (6, 1.5, 1, 1.5)), (0, (1, 3)), (0, (2, 2)))
"""Dashes of what the values are compared with."""
RINGS = ("o", "s", "D", "^")
LINEAR = 0.01
"""A symlog axis is linear up to this share of the largest value."""
ALIKE: dict[str, Any] = {"rtol": 0.01, "atol": 0.002}
"""References of several series that differ less are a single line."""


RELATIVE = "Depth (layer / number of layers)"


@dataclass(frozen=True, kw_only=True)
class Curves(Form):
    """Draw a line per series through the mean of `y` at each `x`, with its interval as a band."""

    series: str = "arm"
    dash: str = ""
    """Column whose values have a dash each; the first is solid."""
    scales: tuple[str, str] = ("steps", "linear")
    """Of both axes: linear, log, symlog; steps: 0, then logarithmic from 1; layers: whole numbers."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Column that the values are compared with → its name in the legend."""
    thin: str = ""
    """Column whose values each have a thin line; rows without a value there are the main line."""

    def averaged(self, table: pd.DataFrame) -> pd.DataFrame:
        places = (self.rows, self.columns, self.series, self.dash, self.thin, self.x)
        return averaged(table, places, self.y)

    def draw(self, table: pd.DataFrame) -> Figure:
        shared = {"sharex": bool(self.labels[0]), "sharey": "row" if self.rows else bool(self.labels[1])}
        figure, panels = self.grid(table, 1.6 if self.rows else 1.9, **shared)
        sizes = table[self.y].abs().groupby(table[self.series]).mean()
        styles = looks(self, table, self.series, sizes)
        dashes = dict(zip(self.ordered(table, self.dash), DASHES * 9, strict=False))
        along = table.sort_values(self.x, kind="stable")  # colours and panels have the order of the rows
        for place, axes in panels.items():
            self._panel(axes, self.of_panel(along, place), styles, dashes)
        for axes in panels.values():
            self._axes(axes, table)
        below(figure, self._keys(table, styles, dashes), seeds_text(table))
        return figure

    def told(self, table: pd.DataFrame) -> str:
        keys = [key for key in (self.rows, self.columns, self.series, self.dash) if key]
        means = table[table[self.thin].isna()] if self.thin else table
        last = (
            means[means[self.y].notna()]
            .sort_values(self.x, kind="stable")
            .groupby(keys, sort=False, dropna=False)
            .tail(1)
        )
        return f"Last values: {in_words(self, last, keys, self.y)}"

    def _panel(self, axes: Axes, rows: pd.DataFrame, styles: Mapping[Any, Any], dashes: Mapping[Any, Any]) -> None:
        axes.grid(visible=True, axis="y")
        for (series, look), (dash, line) in product(styles.items(), dashes.items()):
            own = part(part(rows, self.series, series), self.dash, dash)
            name = f"{self.series}:{series}"
            main = own[own[self.thin].isna()] if self.thin else own
            for seed, one in own.groupby(self.thin) if self.thin else ():
                fine: dict[str, Any] = {"color": look["color"], "linewidth": 0.6, "alpha": 0.55}
                axes.plot(one[self.x], one[self.y], gid=f"{name}/{self.thin}:{seed:g}", **fine)
            if main.empty:
                continue
            drawn = {"linewidth": 1.3, "markersize": 3.2, "markevery": max(1, len(main) // 8), "linestyle": line} | look
            drawn |= {"linestyle": line} if self.dash else {}
            axes.plot(main[self.x], main[self.y], gid=name, zorder=1 if look["color"] == HATCH else 3, **drawn)
            band: dict[str, Any] = {"color": look["color"], "alpha": 0.16, "linewidth": 0, "gid": name}
            if look["color"] != HATCH:  # bands of many grey lines would cover the others
                axes.fill_between(main[self.x], main["low"], main["high"], **band)
        for (column, _), line in zip(self.beside.items(), BESIDE * 9, strict=False):
            self._beside(axes, rows, column, line, styles)
        if np.isfinite(rows[self.y]).any():
            self._marks(axes, rows)
        else:
            hatched(axes, first_gap(rows, "no value"))
        noted(axes, rows)

    def _beside(self, axes: Axes, rows: pd.DataFrame, column: str, line: Any, styles: Mapping[Any, Any]) -> None:
        """Draw a reference: a single line if it is the same for all series, else a line per series."""
        if column not in rows:
            return
        known = rows.dropna(subset=column)
        drawn: dict[str, Any] = {"linestyle": line, "linewidth": 0.9, "gid": column, "zorder": 2}
        at = known.groupby(self.x)[column]
        if known.empty:
            return
        if np.allclose(at.min(), at.max(), **ALIKE):
            if np.allclose(known[column], known[column].iloc[0], **ALIKE):
                axes.axhline(known[column].iloc[0], color=INK, **drawn)
            else:
                axes.plot(at.mean().index, at.mean(), color=INK, **drawn)
            return
        for series, own in known.groupby(self.series, sort=False):
            means = own.groupby(self.x)[column].mean()
            axes.plot(means.index, means, color=styles[series]["color"], **drawn)

    def _marks(self, axes: Axes, rows: pd.DataFrame) -> None:
        """Ring the points with a mark; cross, at the lower edge, the places without a value."""
        for kind, shape in zip(self._kinds(rows, "mark"), RINGS, strict=False):
            own = rows[rows["mark"] == kind]
            ring: dict[str, Any] = {"marker": shape, "markersize": 8, "markerfacecolor": "none", "linestyle": ""}
            axes.plot(own[self.x], own[self.y], color=INK, gid=kind, **ring)
        for kind in self._kinds(rows, "gap"):
            at = sorted(set(rows.loc[rows["gap"] == kind, self.x]))
            lower = axes.get_xaxis_transform()
            axes.plot(at, [0.04] * len(at), "x", color=INK, markersize=4, transform=lower, gid="gap")

    def _kinds(self, rows: pd.DataFrame, column: str) -> list[str]:
        return list(dict.fromkeys(rows[column].dropna())) if column in rows else []

    def _axes(self, axes: Axes, table: pd.DataFrame) -> None:
        across, up = self.scales
        if across == "steps":
            log_steps(axes, float(table[self.x].max()))
        elif across == "layers":
            whole = bool((table[self.x] % 1 == 0).all())
            single = FixedLocator(table[self.x].unique()) if table[self.x].nunique() == 1 else None
            axes.xaxis.set_major_locator(single or (MaxNLocator(integer=True) if whole else MultipleLocator(0.25)))
            axes.xaxis.set_major_formatter(layer_tick)
            if axes.get_xlabel() and not whole:
                axes.set_xlabel(RELATIVE, fontsize=8)
        elif across == "log":
            axes.set_xscale("log")
            _log(axes.xaxis, LogLocator(numticks=8))
        else:
            axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        if up == "linear":
            axes.margins(y=0.1)
            axes.yaxis.set_major_locator(MaxNLocator(4))
            return
        largest = float(table[self.y].abs().max()) or 1.0
        more = {"linthresh": 10.0 ** np.floor(np.log10(LINEAR * largest))} if up == "symlog" else {}
        axes.set_yscale(up, **more)
        _log(axes.yaxis, *([LogLocator(numticks=8)] if up == "log" else []))

    def _keys(self, table: pd.DataFrame, styles: Mapping[Any, Any], dashes: Mapping[Any, Any]) -> list[Any]:
        handles = series_keys(self, self.series, styles, markersize=4)
        if len(dashes) > 1:
            plain: dict[str, Any] = {"color": INK, "linewidth": 1.2}
            handles += [
                Line2D([], [], linestyle=line, label=self.called(dash), **plain) for dash, line in dashes.items()
            ]
        for (column, label), line in zip(self.beside.items(), BESIDE * 9, strict=False):
            if column in table and table[column].notna().any():
                handles.append(Line2D([], [], color=INK, linestyle=line, linewidth=0.9, label=label))
        for kind, shape in zip(self._kinds(table, "mark"), RINGS, strict=False):
            ring: dict[str, Any] = {"marker": shape, "markersize": 7, "markerfacecolor": "none", "linestyle": ""}
            handles.append(Line2D([], [], color=INK, label=kind, **ring))
        for kind in self._kinds(table, "gap"):
            handles.append(Line2D([], [], color=INK, marker="x", linestyle="", label=kind))
        return handles


@dataclass(frozen=True, kw_only=True)
class Profile(Curves):
    """Draw a line per series over layers; −1 is the word table alone."""

    x: str = "layer"
    y: str = "value"
    labels: tuple[str, str] = ("Layer", "")
    scales: tuple[str, str] = ("layers", "linear")


def _log(axis: Any, *locator: Any) -> None:
    """Write ticks as numbers, at places of `locator`."""
    for one in locator:
        axis.set_major_locator(one)
    axis.set_major_formatter(lambda value, _: f"{value:g}".replace("-", "−"))
    axis.set_minor_formatter(NullFormatter())


def log_steps(axes: Axes, last: float) -> None:
    """Set the x-axis to steps: logarithmic from 1, with 0 at the left end; minor ticks at multiples of powers of 10."""
    last = max(last, 1.0)
    powers = [10**power for power in range(int(np.log10(last)) + 1)]
    between = [times * power for power in powers for times in range(2, 10) if times * power <= last]
    axes.set_xscale("symlog", linthresh=1, linscale=0.5)
    axes.xaxis.set_major_locator(FixedLocator([0, *powers]))
    axes.xaxis.set_major_formatter(lambda step, _: f"{step:.0f}")
    axes.xaxis.set_minor_locator(FixedLocator(between))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(-0.15, last * 1.25)
