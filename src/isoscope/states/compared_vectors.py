"""Tables of `isoscope spaces` for files of vectors: rows that belong together by a key, or row by row."""

import hashlib
import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from isoscope.base.atomic_files import kept
from isoscope.base.code_closure import code_version
from isoscope.base.errors import InputError
from isoscope.data.arrays import Indices
from isoscope.data.batches import shuffled
from isoscope.data.columns import strings
from isoscope.data.plain import Texts
from isoscope.data.word_table import KEY, UNKNOWN, UNTAGGED, WordTable
from isoscope.geometry.moments import rows_of_each
from isoscope.geometry.sentence_permutations import GROUPS
from isoscope.states.checkpoint_states import page_facts
from isoscope.states.choices import ROWS, SpaceSettings
from isoscope.states.compared_checkpoints import made
from isoscope.states.given_vectors import GivenVectors
from isoscope.states.space_tables import Compared, Named, tables
from isoscope.states.word_space import Space, store

Tables = dict[str, pd.DataFrame]


class JoinedRows(NamedTuple):
    """Rows that all files have: their names in order, and the place of each in every file, `[files, rows]`."""

    names: list[str]
    places: list[Indices]


def spaces(
    files: Sequence[GivenVectors], settings: SpaceSettings, cache: Path, *, key: str | None, groups: str | None
) -> tuple[Tables, dict[str, Any]]:
    """Compare two or more files of vectors on the rows that all have. Return the tables, and the page's facts.

    `key`: column of the names by which rows are joined; None: row by row. `groups`: column of what belongs together,
    in the place of sentences; None: each row alone. Raises `InputError` for a single file, for keys that are empty or
    repeat, too few common rows, other numbers of rows without a key, and groups that differ between files.
    """
    if len(files) < 2:
        raise InputError("spaces: one file of vectors; give two or more")
    joined = _joined(files, key)
    group = _groups(files, joined, groups) if groups else np.arange(len(joined.names))
    table, drawn = _table(joined.names, group, settings)
    found = {
        one.name: _space(one, places[drawn], table, cache) for one, places in zip(files, joined.places, strict=True)
    }
    named = {name: Named(space, name, None, twin=False) for name, space in found.items()}
    own = settings._replace(probe=ROWS)
    whole = made(tables, Compared(table, named, [*combinations(named, 2)]), own)
    missing = {one.name: one.rows.rows - len(joined.names) for one in files}
    counts = [{"words": f"rows of {one.name}", "occurrences": one.rows.rows, "sentences": None} for one in files]
    counts += [{"words": "in all files", "occurrences": len(joined.names), "sentences": len(np.unique(group))}]
    whole["counts"] = pd.concat([pd.DataFrame(counts), whole["counts"]], ignore_index=True)
    said = " and ".join(f"{count} of {name}" for name, count in missing.items() if count)
    by = f"by column {key!r}" if key else "row by row"
    origin = f"{len(files)} files, joined {by}{f', groups by {groups!r}' if groups else ''}"
    of = Texts(pa.table({"sentence": joined.names, "group": group}), (), "", origin, len(joined.names), numbered=True)
    return whole, page_facts(files, of._replace(groups=groups), own, len(drawn), [([], [])] * len(files)) | {
        "left_out": f"Rows that another file lacks: {said}; left out" if said else None,
        "layers": {name: space.layers for name, space in found.items()},
        "translation": None,
    }


def _joined(files: Sequence[GivenVectors], key: str | None) -> JoinedRows:
    if key is None:
        counts = {one.given: one.rows.rows for one in files}
        if len({*counts.values()}) > 1:
            said = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise InputError(f"rows: {said}; name a column by which they are joined: --key COLUMN")
        every = np.arange(files[0].rows.rows)
        joined = JoinedRows([f"row {row + 1}" for row in every], [every for _ in files])
    else:
        indices = [_keys(one, key) for one in files]
        names = sorted(set(indices[0]).intersection(*indices[1:]))
        joined = JoinedRows(names, [index.get_indexer(names) for index in indices])
    if len(joined.names) < GROUPS:
        raise InputError(f"{files[0].given}: {len(joined.names)} rows are in all files; at least {GROUPS} are needed")
    return joined


def _keys(one: GivenVectors, key: str) -> "pd.Index[str]":
    cells = _cells(one, key, "--key")
    index = pd.Index(cells, dtype=object)
    if not index.is_unique:
        row = int(index.duplicated().argmax())
        first = cells.index(cells[row])
        raise InputError(
            f"{one.given}, rows {first + 1} and {row + 1}: column {key!r} is {cells[row]!r} in both; a key has one row"
        )
    return index


def _cells(one: GivenVectors, column: str, named: str) -> list[str]:
    """Return the cells of a column as text. Raises `InputError` for an empty cell."""
    cells = strings(one.columns([column]), column, named, classes=True).to_pylist()
    if None in cells:
        raise InputError(
            f"{one.given}, row {cells.index(None) + 1}: column {column!r} is empty; fill it or drop the row"
        )
    return [*map(str, cells)]


def _groups(files: Sequence[GivenVectors], joined: JoinedRows, groups: str) -> Indices:
    """Return the number of each row's group. Raises `InputError` if files have different groups."""
    having = [(one, places) for one, places in zip(files, joined.places, strict=True) if one.has(groups)]
    if not having:
        raise InputError(f"--groups {groups}: no file has this column")
    found = [np.array(_cells(one, groups, "--groups"))[at] for one, at in having]
    for (one, at), cells in zip(having, found, strict=True):
        if len(wrong := np.flatnonzero(cells != found[0])):
            raise InputError(
                f"{one.given}, row {at[wrong[0]] + 1}: column {groups!r} is '{cells[wrong[0]]}', and "
                f"'{found[0][wrong[0]]}' in {having[0][0].given}; correct it, or keep the column in one file"
            )
    numbers: Indices = np.unique(found[0], return_inverse=True)[1]
    return numbers


def _table(names: Sequence[str], group: Indices, settings: SpaceSettings) -> tuple[WordTable, Indices]:
    """Return drawn rows as the words of a table, group by group, and their numbers: whole groups by the seed.

    At most `per_sentence` rows of a group; groups until there are `occurrences` rows.
    """
    of_each, drawn, count = rows_of_each(np.unique(group, return_inverse=True)[1]), list[Indices](), 0
    for number in shuffled(len(of_each), settings.seed, 7):
        rows = of_each[number]
        if len(rows) > settings.per_sentence:
            rows = np.sort(rows[shuffled(len(rows), settings.seed, 8, int(number))[: settings.per_sentence]])
        drawn.append(rows)
        count += len(rows)
        if count >= settings.occurrences:
            break
    sizes, rows = [len(one) for one in drawn], np.concatenate(drawn)
    table = pd.DataFrame(
        {
            "sentence": np.repeat(np.arange(len(sizes)), sizes),
            "position": np.concatenate([np.arange(size) for size in sizes]),
            "form": [names[row] for row in rows],
            **dict.fromkeys(("begin", "end"), 0),
            "frequency": UNKNOWN,
            "tag": UNTAGGED,
        }
    )
    return WordTable([names[one[0]] for one in drawn], np.arange(len(sizes)), table), rows


def _space(one: GivenVectors, places: Indices, table: WordTable, cache: Path) -> Space:
    """Return the drawn rows of a file as a space of a single layer, from the cache or read."""
    keys = table.rows[KEY].assign(found=True)
    content = hashlib.sha256(json.dumps([keys.to_dict("list"), places.tolist()]).encode()).hexdigest()
    about = {"vectors": one.digest, "columns": one.rows.columns, "rows": content, "code": code_version("spaces")}

    def fill(folder: Path) -> None:
        store(folder, keys, one.rows.take(places, one.name)[None])
        one.check_unchanged()

    return Space(kept(cache / "states", about, fill, "states"))
