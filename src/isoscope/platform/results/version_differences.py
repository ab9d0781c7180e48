"""Where two versions of a file differ: a table by row and column, a figure by line, a page by what it names."""

import json
import re
from collections.abc import Iterator
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.platform.config.tree import parse_yaml

AROUND = 40
"""Characters shown around a difference."""
_PLACE = re.compile(r' data-from="([^"]*)"|(?=<h[1-3][ >])')
_CELL = re.compile(r"\s*<t[dh][ >]")
_TAIL = re.compile(r"\s*(?:>?[^<>]*<\s*)*")  # of a text from its end: tags, which may begin the next element
_SOURCE = re.compile("isoscope digest [0-9a-f]{64}")  # in a figure


def differing_cells(old: Path, new: Path) -> dict[str, tuple[Any, Any]]:
    """Return place (row and column) → both values, of each cell that differs between two files of a table or figure.

    A cell that a file lacks is None there. Numbers have nine digits, because other machines may give others. Raises
    `ValueError` or `OSError` if a file cannot be read.
    """
    before, now = (dict(_cells(_read(file))) for file in (old, new))
    pairs = {place: (before.get(place), now.get(place)) for place in before | now}
    return {place: (one, other) for place, (one, other) in pairs.items() if one != other}


def _read(file: Path) -> Any:
    if file.suffix == ".parquet":
        return pd.read_parquet(file).to_dict("records")
    if file.suffix == ".csv":
        return pd.read_csv(file).map(_listed).to_dict("records")
    text = _SOURCE.sub("", file.read_text("utf-8"))
    return text.splitlines() if file.suffix == ".svg" else parse_yaml(text, file.name, most=None)


def _listed(cell: Any) -> Any:
    """Return a cell of a CSV file, which has a list as text, as the list."""
    try:
        return json.loads(cell) if str(cell).startswith("[") else cell
    except ValueError:  # a text, such as "[CLS]"
        return cell


def _cells(value: Any, place: str = "", column: str = "") -> Iterator[tuple[str, Any]]:
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _cells(one, place, f"{column}.{name}".removeprefix("."))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            inside = one.values() if isinstance(one, dict) else ()
            texts = " ".join(str(text) for text in inside if isinstance(text, str | int))
            yield from _cells(one, f"{place}row {number} {texts}".strip() + ", ", column)
    else:
        yield f"{place}column {column}", f"{value:.9g}" if isinstance(value, float) else value


def differing_places(page: str, again: str, left_out: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield (place, its text in `page`, in `again`) where pages differ, by `data-from`; of texts, the part around it.

    `left_out`: beginnings of places that are not compared.
    """
    before, now = _by_place(page), _by_place(again)
    for place in (one for one in before | now if not one.startswith(left_out)):
        for (columns, old), (_, new) in zip_longest(before.get(place, ()), now.get(place, ()), fillvalue=([""], "")):
            if old != new:
                same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
                cell = len(_CELL.findall(old[:same])) - 1 if _CELL.match(old[1:]) else len(columns)  # of a row
                start = max(old.rfind(">", 0, same) + 1, same - AROUND)
                one, other = (text[start : same + AROUND].strip() for text in (old, new))
                yield (
                    f"{place}#{[*columns, ''][min(cell, len(columns))]}".rstrip("#"),
                    one.partition("<")[0] or one,
                    other.partition("<")[0] or other,
                )


def _by_place(page: str) -> dict[str, list[tuple[list[str], str]]]:
    found, columns, parts = dict[str, list[tuple[list[str], str]]](), list[str](), _PLACE.split(page)
    for place, text in zip(["", *parts[1::2]], parts[::2], strict=True):
        found.setdefault(place or "other text", []).append((columns, _TAIL.sub("", text[::-1], count=1)[::-1]))
        columns = re.findall(r'data-column="([^"]*)"', text) or columns
    return found
