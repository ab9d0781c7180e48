"""What all forms of a figure share: the rows that are drawn, small multiples by two columns, a legend below.

A form says which columns of a table are what. Columns with a fixed meaning, where a table has them:

- low, high: an interval; without them, means over equal places have ± 1 sd.
- outer_low, outer_high: a second interval, such as one over seeds and test items.
- least, most: the range that a value can take; a band of ± 1 sd ends there.
- seed: counted as n. note: text in a panel. mark: the point has a ring, with this text in the legend.
- gap: why a place has no value; a cross or a hatched cell, with this text in the legend.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isoscope.platform.figures.snapshots import band
from isoscope.platform.figures.style import (
    ARM_COLOURS,
    BOLD,
    BOXED,
    HATCH,
    WIDTH,
    legend_below,
    look,
    shade,
    style,
    wrapped,
)

ABREAST = 6
"""Up to this number of columns of panels; more are rows."""
MOST = 16
"""Up to this number of series, each has its own look; of more, the largest have, and the rest are grey."""
AGAIN: dict[str, Any] = {"linestyle": (0, (3, 1.5))}
"""Look of lines whose colour is used a second time."""
TEXT = 7.5
"""Size of a legend's letters."""
BOUNDS = ("low", "high", "outer_low", "outer_high", "least", "most")
Names = Mapping[Any, str]
Grid = dict[tuple[Any, Any], Axes]


def only(table: pd.DataFrame, *_: pd.DataFrame) -> pd.DataFrame:
    """Return the first table."""
    return table


@dataclass(frozen=True, kw_only=True)
class Form:
    """A form of a figure: called with the tables of a view, it draws them."""

    x: str
    y: str
    rows: str = ""
    """Column whose values are rows of panels."""
    columns: str = ""
    """Column whose values are columns of panels; without `rows`, the panels are wrapped."""
    labels: tuple[str, str] = ("", "")
    """Labels of the axes. Panels share an axis that has a label: without it, their titles say what is measured."""
    names: Names = field(default_factory=dict)
    """Value → its name in the figure. They give the order of values, too."""
    points: Callable[..., pd.DataFrame] = only
    """Returns what is drawn from the view's tables."""

    def __call__(self, *tables: pd.DataFrame) -> Figure:
        with style():
            figure = self.draw(table := self.drawn(*tables))
        figure.set_label(self.told(table))
        return figure

    def drawn(self, *tables: pd.DataFrame) -> pd.DataFrame:
        """Return the rows that are drawn. Raises `ValueError` without any."""
        table = self.points(*tables)
        if table.empty:
            raise ValueError("nothing to draw: the table has no rows")
        return self.averaged(table)

    def averaged(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a row per place that is drawn."""
        return table

    def draw(self, table: pd.DataFrame) -> Figure:
        """Draw the rows of `drawn`."""
        raise NotImplementedError

    def told(self, table: pd.DataFrame) -> str:
        """Return the rows of `drawn` in words, for screen readers: it becomes the label of the figure."""
        raise NotImplementedError

    def ordered(self, table: pd.DataFrame, column: str) -> list[Any]:
        """Return the values of a column: numbers by size, others in the order of `names`, then of their first row."""
        if not column:
            return [""]
        found = list(dict.fromkeys(table[column].dropna()))
        if numeric(table, column):
            return sorted(found)
        known = {name: place for place, name in enumerate(self.names)}
        return sorted(found, key=lambda one: known.get(one, len(known)))

    def called(self, value: Any, before: str = "") -> str:
        """Return the name of a value; of a number, after the name of its column."""
        if value in self.names:
            return self.names[value]
        return f"{before} {value:g}".strip() if isinstance(value, int | float | np.number) else str(value)

    def grid(self, table: pd.DataFrame, height: float, **shared: Any) -> tuple[Figure, Grid]:
        """Return a figure and its panels by (row, column); `height`: inches of a row of panels."""
        rows, columns = self.ordered(table, self.rows), self.ordered(table, self.columns)
        turned = bool(self.rows) and len(columns) > ABREAST > len(rows)
        if turned:
            rows, columns = columns, rows
        wide = len(columns) if self.rows else _abreast(len(columns))
        high = len(rows) if self.rows else -(-len(columns) // wide)
        width = min(WIDTH, max(4.2, 2.4 * wide + 0.8))
        figure = Figure(figsize=(width, height * high + 0.5), layout="constrained")
        every = figure.subplots(high, wide, squeeze=False, **shared)
        for axes in every.flat:
            axes.tick_params(labelsize=7)
        for axes in every.flat[high * wide if self.rows else len(columns) :]:
            axes.set_axis_off()
        inches = (width - 0.8) / wide
        titled = self.columns if not turned else self.rows
        for axes, value in zip(every[0] if self.rows else every.flat, columns, strict=False):
            axes.set_title(by_line(self.called(value, titled), inches / BOLD, 8.5), fontsize=8.5)
        for axes in every.flat[: len(columns)][-wide:] if not self.rows else every[-1]:
            axes.set_xlabel(self.labels[0], fontsize=8)
            axes.tick_params(labelbottom=True)
        sides = self.rows if not turned else self.columns
        for axes, value in zip(every[:, 0], rows if self.rows else [""] * high, strict=True):
            side = by_line(self.called(value, sides), height - 0.2, 8)
            axes.set_ylabel("\n".join(filter(None, (side, self.labels[1]))), fontsize=8)
        places = [(column, row) if turned else (row, column) for row, column in product(rows, columns)]
        return figure, dict(zip(places, every.flat, strict=False))

    def of_panel(self, table: pd.DataFrame, place: tuple[Any, Any]) -> pd.DataFrame:
        """Return the rows of a panel; a missing value of its column belongs to all panels."""
        for column, value in zip((self.rows, self.columns), place, strict=True):
            if column:
                table = table[(table[column] == value) | table[column].isna()]
        return table


def in_words(form: Form, table: pd.DataFrame, keys: Iterable[str], value: str) -> str:
    """Return the values of a column in words, each after its `keys`; of more than `MOST`, the largest."""
    named = [key for key in dict.fromkeys(keys) if key]
    known = table[table[value].notna()]
    kept = known[known.index.isin(known[value].abs().nlargest(MOST).index)]
    parts = [
        f"{', '.join(form.called(row[key], key) for key in named if pd.notna(row[key]))} {row[value]:.3g}"
        for row in kept.to_dict("records")
    ]
    left = f" and {len(known) - len(kept)} more" * (len(kept) < len(known))
    return " ".join(f"{'; '.join(parts) or 'no values'}{left}.".split())


def _abreast(count: int) -> int:
    """Return how many of `count` panels stand in a row: three, or four if that fills the rows."""
    return count if count <= 4 else 4 if count % 4 == 0 else 3


def numeric(table: pd.DataFrame, column: str) -> bool:
    """Return whether a column holds numbers."""
    return bool(column) and pd.api.types.is_numeric_dtype(table[column]) and table[column].dtype != bool


def averaged(table: pd.DataFrame, by: Iterable[str], value: str) -> pd.DataFrame:
    """Return a row per place `by`: mean of `value`, its interval as low and high, and the number of seeds.

    A place with a gap in any row has no value.
    """
    places = [name for name in dict.fromkeys(by) if name]
    numbers = [name for name in (value, *BOUNDS) if name in table]
    table = table.assign(**{name: pd.to_numeric(table[name], errors="coerce").astype(float) for name in numbers})
    if "gap" in table:
        table[value] = table[value].where(table["gap"].isna())
    groups = table.groupby(places, sort=False, dropna=False)
    rest = [name for name in table if name not in (*places, "seed")]
    found = groups.agg({name: "mean" if numeric(table, name) else "first" for name in rest})
    if "low" not in table:
        ends = found["least"] if "least" in table else None, found["most"] if "most" in table else None
        found["low"], found["high"] = band(found[value], groups[value].std(), ends)
    if "gap" in table:
        gone = groups["gap"].count() > 0
        for name in {value, *BOUNDS[:4]} & {*found}:
            found[name] = found[name].mask(gone)
    if "seed" in table and "seed" not in places:
        known = table["seed"].where(table[value].notna())
        found["seeds"] = table.assign(seed=known).groupby(places, sort=False, dropna=False)["seed"].nunique()
    return found.reset_index()


def looks(
    form: Form, table: pd.DataFrame, column: str, size: pd.Series | None = None, most: int = MOST
) -> dict[Any, dict[str, Any]]:
    """Return the look of each value of a column: numbers from dark to light, others by colour and marker.

    Of more than `most` values, the largest by `size` (by value; default: the first) have a look, and the rest are grey.
    """
    values = form.ordered(table, column)
    if numeric(table, column):
        return {value: shade(place, len(values)) for place, value in enumerate(values)}
    kept = values
    if len(values) > most:
        largest = values if size is None else list(size.sort_values(ascending=False, kind="stable").index)
        kept = [value for value in values if value in set(largest[: most - 1])]
    found = {value: look(place) | (AGAIN if place >= len(ARM_COLOURS) else {}) for place, value in enumerate(kept)}
    return {value: found.get(value, {"color": HATCH, "marker": "", "linewidth": 0.6}) for value in values}


def series_keys(form: Form, column: str, styles: Mapping[Any, dict[str, Any]], **line: Any) -> list[Artist]:
    """Return a legend entry per value, with the values without a look as one entry."""
    plain = [value for value, one in styles.items() if one["color"] == HATCH]
    found = [
        Line2D([], [], gid=f"{column}:{value}", label=wrapped(form.called(value, column), 3.2, size=TEXT), **one | line)
        for value, one in styles.items()
        if value not in plain
    ]
    if plain:
        rest = styles[plain[0]] | line | ({"marker": "."} if line.get("linestyle") == "" else {})
        found.append(Line2D([], [], label=f"the other {len(plain)}", **rest))
    return [one for one in found if one.get_label()]


def part(rows: pd.DataFrame, column: str, value: Any) -> pd.DataFrame:
    """Return the rows with a value in a column; without a column, all rows."""
    return rows[rows[column] == value] if column else rows


def in_order(table: pd.DataFrame, column: str, order: Iterable[Any]) -> pd.DataFrame:
    """Return the rows in the order that the values of a column have in `order`."""
    places = {value: place for place, value in enumerate(order)}
    return table.sort_values(column, key=lambda values: values.map(places), kind="stable")


def where(mask: pd.Series, text: str) -> pd.Series:
    """Return `text` where a mask is true, and None elsewhere: a column `gap` or `mark`."""
    return mask.astype(bool).map({True: text, False: None}).astype(object)


def first_gap(rows: pd.DataFrame, instead: str) -> str:
    """Return why the rows of a panel have no value, up to a colon."""
    return next((str(text).partition(":")[0] for text in rows.get("gap", ()) if isinstance(text, str)), instead)


def by_line(text: str, inches: float, size: float) -> str:
    """Wrap each line of a text."""
    return "\n".join(wrapped(line, inches, size=size, lines=3) for line in text.split("\n") if line)


def seeds_text(table: pd.DataFrame) -> str:
    """Return `n = 3 seeds`, or `n = 1 to 3 seeds`; empty if the rows have no seeds."""
    known = [int(n) for n in table.get("seeds", ()) if n > 0]
    if not known:
        return ""
    low, high = min(known), max(known)
    return f"n = {low} to {high} seeds" if low < high else f"n = {high} seed{'s' * (high != 1)}"


def below(figure: Figure, handles: Sequence[Artist], title: str = "") -> None:
    """Add a legend below the panels; the figure grows by its height."""
    if not handles and not title:
        return
    high = figure.get_figheight()
    told = wrapped(title, figure.get_figwidth() - 0.3, size=7, lines=4)
    made = legend_below(figure, handles, columns=6, size=TEXT, title=told or None, title_fontsize=7)
    box = made.get_window_extent(FigureCanvasAgg(figure).get_renderer())
    figure.set_figheight(high + box.height / figure.dpi)


def noted(axes: Axes, rows: pd.DataFrame) -> None:
    """Write the note of a panel's rows into its corner."""
    if "note" in rows and len(told := rows["note"].dropna()):
        axes.text(0.02, 0.98, told.iloc[0], transform=axes.transAxes, ha="left", va="top", fontsize=6.5, **BOXED)
