"""A form without a drawing: a page shows the rows of a table as they are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from isoscope.platform.figures.form import only
from isoscope.platform.figures.numbers import score

Lines = Sequence[Sequence[tuple[str, bool]]]
"""The heads of a table, then its rows: the text of each cell, and whether it is a number."""


@dataclass(frozen=True, kw_only=True)
class Texts:
    """A table on a page. Counts are whole; other numbers have `digits` decimals; what is missing is a dash."""

    heads: Mapping[str, str] = field(default_factory=dict)
    """Column → its head; default: all columns, by their names."""
    digits: int = 3
    points: Callable[..., pd.DataFrame] = only
    """Returns what is shown from the view's tables."""

    def __call__(self, *tables: pd.DataFrame) -> Lines:
        table = self.points(*tables)
        heads = self.heads or {str(name): str(name) for name in table}
        rows = table[[*heads]].itertuples(index=False, name=None)
        return [[(text, False) for text in heads.values()], *([*map(self.cell, row)] for row in rows)]

    def cell(self, value: Any) -> tuple[str, bool]:
        """Return the text of a value, and whether it is a number."""
        if isinstance(value, str):
            return value, False
        return (f"{value:,}" if isinstance(value, int) else score(value, self.digits)), True
