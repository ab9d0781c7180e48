"""Read labels as class names: without spaces around them; what is probably a mistake is noted, not changed."""

import ast
import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from isoscope.base.errors import InputError

INTEGER = re.compile(r"0|-?[1-9][0-9]*")
DECIMAL = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
LARGEST = 2**53
"""From here on not every whole number is a float."""
_PARTS = re.compile(r"\s*[|;,]\s*")


class Classes(NamedTuple):
    """`names`: label as written → class name. `notes`: sentences about labels that may be mistakes."""

    names: dict[str, str]
    notes: tuple[str, ...]


def class_names(schema: pa.Schema, column: str | None) -> tuple[str, ...] | None:
    """Return the class names that the library `datasets` stored in an Arrow schema's metadata, or None."""
    try:
        feature = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"][column]
        return tuple(feature.get("feature", feature)["names"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def in_order(names: Collection[str]) -> list[str]:
    """Return class names in numeric order if all read as integers, else in alphabetical order."""
    return sorted(names, key=int) if all(INTEGER.fullmatch(name) for name in names) else sorted(names)


def read_classes(labels: Iterable[str], place: str, column: str, *, several: bool = False) -> Classes:
    """Return the class name of each label: without spaces around it; 1.0 is 1 if all labels are whole numbers.

    Notes name what was left out, names that differ only in case or form, and names that look like several labels, also
    where a text has `several`: they may stand between another separator.
    Raises `InputError`, naming `place` and `column`, for empty labels, lists, and numbers that are not whole.
    """
    where = f"{place}: column {column!r}"
    names = {label: label.strip() for label in sorted(labels)}
    if "" in names.values():
        raise InputError(f"{where} has labels of spaces only, or empty; fill them or drop the rows")
    if lists := [name for name in names.values() if _is_list(name)]:
        raise InputError(f"{where} holds lists, such as {lists[0][:40]}; expected one class per row: split them")
    notes = []
    if spaced := [label for label, name in names.items() if label != name]:
        notes.append(f"{where}: spaces around labels are left out, such as those of {spaced[0]!r}")
    decimals = sorted(name for name in names.values() if DECIMAL.fullmatch(name))
    if decimals and all(map(INTEGER.fullmatch, {*names.values()} - {*decimals})):
        if broken := [name for name in decimals if _whole(name) is None]:
            raise InputError(
                f"{where} holds numbers such as {broken[0]}; classes are integers or text: name another column, or "
                "write ranges as text"
            )
        names = whole_numbers(names)
        notes.append(f"{where}: labels such as {decimals[0]} are read as {_whole(decimals[0])}")
    found = in_order({*names.values()})
    return Classes(names, (*notes, *_alike(found, where), *_several(found, where, several)))


def whole_numbers(names: Mapping[str, str]) -> dict[str, str]:
    """Return the names with 1.0 as 1, if all are whole numbers; else as they are."""
    whole = {one: name if INTEGER.fullmatch(name) else _whole(name) for one, name in names.items()}
    return {**names} if None in whole.values() else {one: str(name) for one, name in whole.items()}


def forms(label: str) -> tuple[str, ...]:
    """Return how else a class may be written: as it is, without spaces around it, and as a whole number."""
    name = label.strip()
    return (label, name, *filter(None, [_whole(name)]))


def _whole(number: str) -> str | None:
    value = float(number) if DECIMAL.fullmatch(number) else math.nan
    return str(int(value)) if value.is_integer() and abs(value) < LARGEST else None


def _alike(names: list[str], where: str) -> Iterable[str]:
    """Yield a note about class names that differ only in case, spaces, or form of their letters."""
    same = [[*group] for _, group in groupby(sorted(names, key=_plain), key=_plain)]
    if pairs := [" and ".join(map(repr, sorted(group))) for group in same if len(group) > 1]:
        yield (
            f"{where}: {', '.join(pairs)} differ only in case or form, but are classes of their own; write them alike "
            "if they are the same"
        )


def _plain(name: str) -> str:
    return re.sub(r"[\s_.-]+", " ", unicodedata.normalize("NFKC", name).casefold()).strip()


def _several(names: list[str], where: str, several: bool) -> Iterable[str]:
    """Yield a note about class names whose parts, between bars, semicolons or commas, are in other names too."""
    parts = {name: {*_PARTS.split(name)} for name in names}
    known = Counter(part for own in parts.values() for part in own)
    joined = [name for name, own in parts.items() if any(known[part] > 1 for part in own - {name})]
    if joined:
        sign = _PARTS.findall(joined[0])[0].strip()
        told = f"{where}: {joined[0]!r} looks like several labels"
        cure = f"name the column as data.source.columns.labels, and set data.source.separator to {sign!r}"
        yield (
            f"{told}, but {len(joined)} such combinations are {'labels' if several else 'classes'} of their own; for "
            f"several labels per text, {'write all of them alike, as lists or with one separator' if several else cure}"
        )


def _is_list(text: str) -> bool:
    """Return whether a class name is a written list or mapping, as in tables with several labels per row."""
    try:
        return text[:1] in ("[", "(", "{") and isinstance(ast.literal_eval(text), list | tuple | dict | set)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
