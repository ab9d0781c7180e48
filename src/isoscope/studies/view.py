"""A view: one figure of a study, or one for each value of a column, with its table and its caption."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from isoscope import plugins
from isoscope.errors import InputError, brief
from isoscope.paths import checked_name

Tables = Mapping[str, pd.DataFrame]
"""A study's tables by name."""
Table = tuple[pd.DataFrame, ...]
"""What a view shows: the rows it takes from each table it needs, in their order."""


@dataclass(frozen=True)
class View:
    """`draw` takes the tables of `needs`, in order, after `rows` has chosen what is shown."""

    name: str
    needs: tuple[str, ...]
    draw: Callable[..., Figure]
    caption: str | Callable[..., str]
    """What stands below it; `{}` is the value of `by`. A function makes it of the rows that the figure shows."""
    rows: Callable[..., Table] | None = None
    by: str | None = None
    """Column of the first table: a figure for each of its values."""
    called: Mapping[str, str] = field(default_factory=dict)
    """What the caption says of a value, where that is not the value itself."""
    spoken: Callable[..., str] | None = None
    """What a screen reader says, where it is more than the caption."""
    remakes: str | None = None
    """The published figure that this one makes again."""

    def table(self, tables: Tables) -> Table:
        """What the view shows of a study. Raises `KeyError` where a needed table is missing."""
        found = tuple(tables[name] for name in self.needs)
        return found if self.rows is None else self.rows(*found)


class Picture(NamedTuple):
    """One figure of a view: `value` is that of its column `by`, or None."""

    view: View
    value: Any
    table: Table

    @property
    def name(self) -> str:
        """What its files are called."""
        return self.view.name if self.value is None else f"{self.view.name}-{str(self.value).replace(' ', '_')}"

    @property
    def caption(self) -> str:
        """What stands below it."""
        caption = self.view.caption
        if isinstance(caption, str):
            return caption.format(self.view.called.get(self.value, self.value))
        return caption(*self.table)

    @property
    def spoken(self) -> str:
        """What a screen reader says."""
        return self.caption if self.view.spoken is None else self.view.spoken(*self.table)

    def figure(self) -> Figure:
        """The figure, drawn."""
        return self.view.draw(*self.table)


def with_added(views: Iterable[View]) -> tuple[View, ...]:
    """These views, and after them those of plugins; `pictures` draws each where its tables are.

    Raises `InputError` where a plugin's view has the name of another, or one that cannot name a file.
    """
    found = list(views)
    for plugin in plugins.VIEWS.values():
        if checked_name("view", plugin.name) in {view.name for view in found}:
            raise InputError(f"{plugin.title}: there is a view of this name; rename it")
        view = plugin.factory()
        if not isinstance(view, View):
            raise InputError(f"{plugin.title}: gives {brief(view)}; expected an isoscope.studies.view.View")
        found.append(replace(view, name=plugin.name))
    return tuple(found)


def added_digests() -> dict[str, str]:
    """File → sha256 of its code, of the plugins that add views."""
    return {plugin.file.name: plugins.digest(plugin.file) for plugin in plugins.VIEWS.values()}


def pictures(views: Iterable[View], tables: Tables) -> Iterator[Picture]:
    """Every figure that there are rows for, in the order of the views and of their tables' rows."""
    for view in views:
        if not set(view.needs) <= tables.keys():
            continue
        table = view.table(tables)
        if view.by is not None:
            for value in dict.fromkeys(table[0][view.by]):
                own = tuple(part[part[view.by] == value] if view.by in part else part for part in table)
                yield Picture(view, value, own)
        elif len(table[0]):
            yield Picture(view, None, table)
