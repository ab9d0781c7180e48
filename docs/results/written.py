"""How the tables of results pages are written: numbers as text, a table as Markdown or as CSV."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from isoscope.platform.figures.numbers import NOTHING, written
from isoscope.platform.statistics.paired import Interval, paired_t

CONFIDENCE = 0.95
NONE = NOTHING


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
        rows = [[re.sub(r"\\(.)|[*`]", r"\1", str(cell)) for cell in row] for row in (self.head, *self.rows)]
        csv.writer(text, lineterminator="\n").writerows(rows)
        return text.getvalue()


def number(value: float | None, digits: int = 3, sign: bool = False) -> str:
    """Format a number; a dash for none."""
    return written(value, f"{'+' if sign else ''},.{digits}f")


def short(value: float | None, sign: bool = False) -> str:
    """Format with three decimals, without the zero before the point."""
    return re.sub(r"^([+−]?)0\.", r"\1.", number(value, 3, sign))


def between(found: Interval | None, write: Callable[..., str] = number) -> str:
    """Format the interval of a difference; a dash for none."""
    return NONE if found is None else f"[{write(found.low, sign=True)}, {write(found.high, sign=True)}]"


def spread(values: Iterable[float]) -> str:
    """Format mean ± sd over seeds, the mean alone of a single seed."""
    known = np.asarray([*values], dtype=float)
    return short(known.mean()) + (f" ± {short(known.std(ddof=1))}" if len(known) > 1 else "")


def interval(values: Iterable[float], digits: int = 3) -> str:
    """Format the mean over seeds with its t interval, from three seeds on; a dash for no number."""
    known = [float(value) for value in values]
    if not known:
        return NONE
    found = paired_t(known, confidence=CONFIDENCE)
    ends = ", ".join(number(end, digits) for end in found.interval or ())
    return number(found.mean, digits) + (f" [{ends}]" if ends else "")
