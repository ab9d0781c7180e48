"""Strike the tables of views: numbers missing or equal, columns gone, no rows; a figure is drawn or says why not."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import numpy as np
import pandas as pd

from isoscope.base.view import Tables, View
from isoscope.platform.figures.pictures import pictures
from isoscope.platform.figures.style import to_svg

Struck = tuple[str, Tables]


def tables_struck(view: View, tables: Tables) -> Iterator[Struck]:
    """Per table that a view needs: all its numbers missing, or equal; no rows."""
    for name in view.needs:
        table = tables[name]
        numbers = [column for column in table.select_dtypes("float") if column != "step"]
        for kind, value in (("missing", np.nan), ("equal", 0.5)):
            yield f"all numbers of {name} {kind}", _with(tables, name, table.assign(**dict.fromkeys(numbers, value)))
        yield f"no rows in {name}", _with(tables, name, table[:0])


def columns_struck(view: View, tables: Tables) -> Iterator[Struck]:
    """Per column of each table that a view needs: missing, equal, or absent."""
    for name in view.needs:
        table = tables[name]
        for column in table.columns:
            gone = np.nan if table[column].dtype.kind == "f" else None
            yield f"{name}.{column} missing", _with(tables, name, table.assign(**{column: gone}))
            same = table.assign(**{column: [table[column].iloc[0]] * len(table)}) if len(table) else table
            yield f"{name}.{column} equal", _with(tables, name, same)
            yield f"{name}.{column} absent", _with(tables, name, table.drop(columns=column))


def _with(tables: Tables, name: str, table: pd.DataFrame) -> Mapping[str, pd.DataFrame]:
    return {**tables, name: table}


def wrong(views: Iterable[View], tables: Tables, *, exhaustive: bool) -> list[str]:
    """Return which figures of these views end in an error, have an axis without ends, or lack a caption.

    Not `exhaustive`: the first figure of each view, not written, from tables that are struck whole.
    """
    found, drawn = [], 0
    for view in views:
        if not set(view.needs) <= tables.keys():
            continue
        strikes = [*tables_struck(view, tables), *(columns_struck(view, tables) if exhaustive else ())]
        for what, struck in strikes:
            try:
                for one in islice(pictures([view], struck), None if exhaustive else 1):
                    drawn += 1
                    figure = one.figure()
                    assert "nan" not in str(one.lines)
                    assert one.caption
                    assert one.name
                    assert one.findings is not None
                    for axes in figure.axes:
                        assert np.isfinite([*axes.get_xlim(), *axes.get_ylim()]).all(), "an axis without ends"
                    assert not exhaustive or not re.search(r' d="[^"]*(nan|inf)', to_svg(figure)), "a path to nowhere"
            except Exception as error:  # each is one finding
                found.append(f"{view.name}: {what}: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
    assert drawn, "some views have their tables"
    return found
