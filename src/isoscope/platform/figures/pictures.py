"""The figures of views: drawn from a study's tables, each with its rows and caption."""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from matplotlib.figure import Figure

from isoscope import plugins
from isoscope.base import kind as kinds
from isoscope.base.errors import InputError, brief, plugin_line, said
from isoscope.base.paths import checked_name
from isoscope.base.view import Table, Tables, View
from isoscope.platform.figures.origin import origin, origins, packed
from isoscope.platform.figures.style import notice
from isoscope.platform.figures.text_form import Lines, Texts
from isoscope.platform.statistics.findings import Finding

DATA_ERRORS = (ArithmeticError, LookupError, TypeError, ValueError)
"""What a view raises if its rows have no numbers, or lack what it shows."""
COORDINATES = ("step", "column", "update", "epoch", "layer", "at", "seed", "seeds", "n", "d", "confidence", "number")
"""Columns that say where a value belongs; without a value, they make no figure."""
NOTHING = "nothing"
"""Name of the figure of a study without figures."""
Made = TypeVar("Made")


class Picture(NamedTuple):
    """A figure or table of a view; `value` is the value of its column `by`, or None."""

    view: View
    value: Any
    table: Table

    @property
    def name(self) -> str:
        """Stem of its file names."""
        return self.view.name if self.value is None else f"{self.view.name}-{str(self.value).replace(' ', '_')}"

    @property
    def rows(self) -> dict[str, bytes]:
        """Table → its rows, packed; a view may show fewer tables than it needs."""
        return {name: packed(table) for name, table in zip(self.view.needs, self.table, strict=False)}

    @property
    def caption(self) -> str:
        """Text below the figure."""
        return self._made(self._caption, lambda why: f"{self.view.name}: no text, because {why}.")

    def _caption(self) -> str:
        caption = self.view.caption
        if isinstance(caption, str):
            return caption.format(self.view.called.get(self.value, self.value))
        return caption(*self.table)

    @property
    def remakes(self) -> str | None:
        """The published figure that this figure reproduces."""
        find = self.view.remakes
        return self._made(lambda: find(*self.table), lambda _: None) if callable(find) else find

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What its rows say, for the first screen of a page."""
        if self.view.findings is None:
            return ()
        find = self.view.findings
        return self._made(lambda: tuple(find(*self.table)), lambda _: ())

    @property
    def lines(self) -> Lines:
        """The lines of a view that is a table; of a figure, none."""
        form = self.view.form
        return self._made(lambda: form(*self.table), lambda _: ()) if isinstance(form, Texts) else ()

    def figure(self) -> Figure:
        """Draw the figure; if its rows have no numbers, or cannot be drawn, return a figure with the reason."""
        return self.written(lambda figure: figure)

    def written(self, write: Callable[[Figure], Made]) -> Made:
        """Draw the figure and return `write(figure)`; of rows that allow neither, that of a figure with the reason.

        A library may find only when it lays out a figure what rows do not allow, such as a logarithm of nothing.
        """
        return self._made(lambda: write(self._figure()), lambda why: write(notice(f"No figure {self.name}:\n{why}")))

    def _figure(self) -> Figure:
        if isinstance(self.view.form, Texts):
            return notice(f"{self.name}: a table, which has no figure")
        numbers = self.table[0].select_dtypes("float").drop(columns=[*COORDINATES], errors="ignore").to_numpy()
        if numbers.size and not np.isfinite(numbers).any():
            return notice(f"No figure {self.name}:\nits table has no numbers")
        return self.view.form(*self.table)

    def _made(self, make: Callable[[], Made], instead: Callable[[str], Made]) -> Made:
        return made_from_rows(self.name, make, instead)


def made_from_rows(name: str, make: Callable[[], Made], instead: Callable[[str], Made]) -> Made:
    """Return `make()`; if the rows do not allow it, say so and return `instead(reason)`: other figures are drawn.

    Errors of plugins are raised.
    """
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=RuntimeWarning)  # a mean of missing numbers is missing
            return make()
    except DATA_ERRORS as error:
        if plugin_line(error):
            raise
        why = f"its rows do not allow it ({said(error)[:120]})"
        print(f"warning: figure {name}: {why}", file=sys.stderr)
        return instead(why)


def views_of(kind: str) -> tuple[View, ...]:
    """Return the views of a study or comparison of this kind: those of every study, its kind's, those of plugins.

    Raises `InputError` if a plugin's view has the name of another view, or a name that is no valid file name.
    """
    found = [*chain.from_iterable(one.views for one in kinds.of_study(kind))]
    for plugin in plugins.VIEWS.values():
        if checked_name("view", plugin.name) in {view.name for view in found}:
            raise InputError(f"{plugin.title}: another view has this name; rename it")
        view = plugin.factory()
        if not isinstance(view, View):
            raise InputError(f"{plugin.title}: returns {brief(view)}; expected an isoscope.plugins.View")
        found.append(replace(view, name=plugin.name))
    return tuple(found)


def added_digests() -> dict[str, str]:
    """Return file → sha256 of the plugins that add views."""
    return {plugin.file.name: plugins.digest(plugin.file) for plugin in plugins.VIEWS.values()}


def pictures(views: Iterable[View], tables: Tables) -> Iterator[Picture]:
    """Yield every figure that has rows, in the order of the views and of their tables' rows."""
    for view in views:
        if not set(view.needs) <= tables.keys():
            continue
        if not len(tables[view.needs[0]]):
            continue
        table = made_from_rows(view.name, partial(view.table, tables), lambda _: None)
        if table is None:
            continue
        if view.by is not None:
            for value in dict.fromkeys(table[0][view.by]):
                own = tuple(part[part[view.by] == value] if view.by in part else part for part in table)
                yield Picture(view, value, own)
        elif len(table[0]):
            yield Picture(view, None, table)


def as_drawn(
    views: Iterable[View], tables: Tables, folder: Path
) -> list[tuple[Picture, dict[str, bytes], Path | None]]:
    """Return every figure and table of views with its packed rows, and the file of a figure in a stage's `folder`.

    Raises `OSError` for a missing file, and `ValueError` for a figure of other rows, or of tables without rows.
    """
    found = [(one, one.rows, None if one.lines else folder / f"{one.name}.svg") for one in pictures(views, tables)]
    names = {NOTHING, *(file.stem for _, _, file in found if file is not None)}
    for other in sorted(folder.glob("*.svg")):
        if other.stem not in names:
            raise ValueError(f"{other}: the tables beside it have no rows for it")
    for _, rows, file in found:
        if file is not None and [one.rows for one in origins(file.read_bytes())] != [origin("", rows, ()).rows]:
            raise ValueError(f"{file}: not the figure of the tables beside it")
    return found
