"""How the tables of results pages are written: numbers as text, a table as Markdown or as CSV."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from isoscope.platform.statistics.paired import Interval, paired_t

CONFIDENCE = 0.95
NONE = "–"


class Table(NamedTuple):
    """A head and rows of cells."""

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def markdown(self) -> str:
        """Return the table for a page; columns with a letter are aligned left, numbers right."""
        rows = [[str(cell) for cell in row] for row in self.rows]
        columns = ["".join(cells) for _, *cells in zip(self.head, *rows, strict=True)]
        sides = ["---" if re.search(r"[^\W\d_]", text) else "---:" for text in columns]
        head, *lines = (f"| {' | '.join(cells)} |".replace("  ", " ") for cells in (self.head, *rows))
        return "\n".join([head, f"|{'|'.join(sides)}|", *lines])

    def csv(self) -> str:
        """Return the table as a file, without the marks of Markdown."""
        text = io.StringIO()
        rows = [[re.sub(r"[*`\\]", "", str(cell)) for cell in row] for row in (self.head, *self.rows)]
        csv.writer(text, lineterminator="\n").writerows(rows)
        return text.getvalue()


def number(value: float | None, digits: int = 3, sign: bool = False) -> str:
    """Format a number; a dash for none."""
    return NONE if value is None or np.isnan(value) else f"{value:{'+' if sign else ''},.{digits}f}".replace("-", "−")


def short(value: float | None, sign: bool = False) -> str:
    """Format with three decimals, without the zero before the point."""
    return re.sub(r"^([+−]?)0\.", r"\1.", number(value, 3, sign))


def between(found: Interval | None, write: Callable[..., str] = number) -> str:
    """Format the interval of a difference; a dash for none."""
    return NONE if found is None else f"[{write(found.low, sign=True)}, {write(found.high, sign=True)}]"


def spread(values: Iterable[float], write: Callable[..., str] = short) -> str:
    """Format mean ± sd over seeds, the mean alone of a single seed; a dash for no number."""
    known = np.asarray([value for value in values if not np.isnan(value)], dtype=float)
    if not len(known):
        return NONE
    return write(known.mean()) + (f" ± {write(known.std(ddof=1))}" if len(known) > 1 else "")


def interval(values: Iterable[float], digits: int = 3, back: Callable[[float], float] = float) -> str:
    """Format the mean over seeds with its t interval, from three seeds on; a dash for no number.

    `back`: applied to the mean and to both ends, as after a mean of logarithms.
    """
    known = [float(value) for value in values]
    if not known:
        return NONE
    found = paired_t(known, confidence=CONFIDENCE)
    ends = ", ".join(number(back(end), digits) for end in found.interval or ())
    return number(back(found.mean), digits) + (f" [{ends}]" if ends else "")


def correlation(values: Iterable[float]) -> str:
    """Format the mean over seeds of correlations with its t interval, both by Fisher's z."""
    return interval(np.arctanh(np.asarray([*values], dtype=float)), 2, np.tanh)


def titled(table: pd.DataFrame, **titles: Mapping[Any, str]) -> pd.DataFrame:
    """Return the rows whose values have titles, with these in place of the values and in their order."""
    for name, own in reversed(titles.items()):
        places = {value: place for place, value in enumerate(own)}
        table = table[table[name].isin([*own])].sort_values(name, key=lambda values: values.map(places), kind="stable")
        table = table.assign(**{name: table[name].map(own)})
    return table


def grid(
    table: pd.DataFrame,
    rows: Mapping[str, str],
    column: str,
    columns: Mapping[Any, str],
    cell: Callable[[pd.Series], str] = interval,
) -> Table:
    """Return a table with a row per value of `rows` and a column per value of `column`; `cell` formats column `value`.

    `rows`: column → head; values in their order in `table`; `seeds` is their number. `columns`: value → head. The
    values that `cell` gets have the name of their column.
    """
    keys = [name for name in rows if name != "seeds"]
    if "seeds" in rows:
        table = table.assign(seeds=table.groupby(keys)["seed"].transform("nunique"))
    groups = table[table[column].isin([*columns])].groupby([*rows, column], sort=False)
    cells = {key: cell(own["value"].rename(key[-1])) for key, own in groups}
    return Table(
        (*rows.values(), *columns.values()),
        [
            (*key, *(cells.get((*key, one), NONE) for one in columns))
            for key in dict.fromkeys(key[:-1] for key in cells)
        ],
    )


def same(names: Iterable[str]) -> dict[str, str]:
    """Return heads that are the names themselves."""
    return {name: name for name in names}
