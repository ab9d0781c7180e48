"""What a kind of study says on a page of checkpoints beside its figures: leads, tables of numbers, limits."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from isoscope.base.view import Tables
from isoscope.platform.figures.numbers import score


class Numbers(NamedTuple):
    """A table on the page: the stored table it needs, its caption, its column heads, and the rows it shows."""

    needs: str
    caption: str
    heads: Mapping[str, str]
    chosen: Callable[[pd.DataFrame], pd.DataFrame]

    def rows(self, tables: Tables) -> list[list[tuple[str, bool]]]:
        """Return each cell's text and whether it is a number. Counts are whole; other numbers have three decimals."""
        table = self.chosen(tables[self.needs])[[*self.heads]]
        return [[_cell(value) for value in row] for row in table.itertuples(index=False, name=None)]


class CheckpointText(NamedTuple):
    """What a page says; the keys are the questions of views, which are the headings of the page."""

    leads: Mapping[str, str] = MappingProxyType({})
    """What a reader should know before the figures of a question."""
    numbers: Mapping[str, Sequence[Numbers]] = MappingProxyType({})
    """Tables below the figures of a question; a table is left out if the page lacks the stored table it needs."""
    notes: Sequence[str] = ()
    """Limits of the results."""
    data: Mapping[str, Any] = MappingProxyType({})
    """What the kind's template `page.html` shows besides."""


def _cell(value: Any) -> tuple[str, bool]:
    if isinstance(value, str):
        return value, False
    return (f"{value:,}" if isinstance(value, int) else score(value)), True


def number(value: Any) -> float | None:
    """Return a number of a table as a float; None if it is missing or not finite."""
    return None if value is None or not np.isfinite(value) else float(value)
