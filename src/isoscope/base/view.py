"""Declare views: a figure or table of a study, or one per value of a column, with its rows and caption."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Tables = Mapping[str, Any]
"""The tables (`pandas.DataFrame`) of a study by name."""
Table = tuple[Any, ...]
"""The rows that a view takes from each table it needs, in the order of `needs`."""


@dataclass(frozen=True)
class View:
    """A view: `form` draws the tables of `needs`, in order, after `rows` has selected what is shown."""

    name: str
    needs: tuple[str, ...]
    form: Callable[..., Any]
    """One of the five forms in `isoscope.platform.figures`; its `Texts`, a table; or, where none fits, a function."""
    caption: str | Callable[..., str]
    """Text below the figure; `{}` is the value of `by`. A function makes it from the rows that the figure shows."""
    rows: Callable[..., Table] | None = None
    by: str | None = None
    """Column of the first table: a figure per value."""
    called: Mapping[str, str] = field(default_factory=dict)
    """Value of `by` → its name in the caption; default: the value itself."""
    remakes: str | Callable[..., str | None] | None = None
    """The published figure that this view reproduces. A function finds it from the rows that the figure shows."""
    question: str = ""
    """Heading of the figures that it belongs to on a page."""
    findings: Callable[..., Iterable[Any]] | None = None
    """What the rows that the figure shows say, for the first screen: see `isoscope.platform.statistics.findings`."""

    def table(self, tables: Tables) -> Table:
        """Return what the view shows of a study. Raises `KeyError` if a table it needs is missing."""
        found = tuple(tables[name] for name in self.needs)
        return found if self.rows is None else self.rows(*found)


def under(question: str, *views: View) -> tuple[View, ...]:
    """Return views under a heading of their own on a page."""
    return tuple(replace(view, question=question) for view in views)
