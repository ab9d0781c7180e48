"""Vectors that somebody has computed, in the place of a checkpoint: a single layer of one kind, without a model."""

import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from isoscope.base.atomic_files import kept
from isoscope.base.code_closure import code_version
from isoscope.base.errors import InputError, RunError
from isoscope.base.parquet import write_parquet
from isoscope.data import probe, tokens
from isoscope.data.arrays import Indices, Vectors
from isoscope.data.files import Raw
from isoscope.data.given_rows import GivenRows, array_digest, file_digest, of_array
from isoscope.data.plain import Texts, texts_of
from isoscope.data.vector_files import named, open_vectors
from isoscope.states.choices import GIVEN, Settings
from isoscope.states.trajectory import PROBE, TOKENS, WORDS, Snapshot, Trajectory, write_arrays, write_snapshots

NO_MODEL = "vectors come without a model"


class GivenVectors(NamedTuple):
    """Vectors in the place of a `Checkpoint`: short name, path (None: an array), sha256, name as given, and rows."""

    name: str
    folder: Path | None
    digest: str
    given: str
    rows: GivenRows

    def check_unchanged(self) -> None:
        """Raise `RunError` if the file changed while it was read."""
        if self.folder and file_digest(self.folder) != self.digest:
            raise RunError(f"{self.given}: has changed while it was read; run the same command again")

    def columns(self, names: Sequence[str]) -> Raw:
        """Return further columns of the file. Raises `InputError` if it has no columns, or too few rows of them."""
        if self.rows.further is None:
            raise InputError(
                f"{self.given}: has no columns, such as {names[0]!r}; give a parquet or csv, or, to isoscope geometry, "
                "a table with a row per vector by --text"
            )
        return self.rows.further([*dict.fromkeys(names)])

    def has(self, name: str) -> bool:
        """Return whether the file has a further column of this name."""
        return self.rows.further is not None and name in self.rows.further([name]).table.column_names


def find_vectors(text: str, others: Collection[str | None] = ()) -> GivenVectors | None:
    """Open a file of vectors, see `open_vectors`; None if the text names another thing than such a file.

    Raises `InputError` for columns of whole numbers beside fractions, which may be numbers of rows.
    """
    if (found := named(text)) is None:
        return None
    rows = open_vectors(*found, {one for one in others if one})
    if rows.whole:
        raise InputError(
            f"{text}: {', '.join(map(repr, rows.whole[:5]))} are whole numbers beside columns of fractions: leave out "
            "what is no dimension, and write a dimension as 1.0"
        )
    return GivenVectors(text, found[0].resolve(), file_digest(found[0]), text, rows)


def given_arrays(arrays: Mapping[str, Any], **columns: Mapping[str, Any] | None) -> list[GivenVectors]:
    """Return arrays `[N, D]` by name as vectors; `columns`: further columns, each by the array's name.

    Raises `InputError` for another shape, and for a column of another length.
    """
    found = []
    for name, array in arrays.items():
        own = {called: list(of[name]) for called, of in columns.items() if of and name in of}
        rows = of_array(array, name, pa.table(own) if own else None)
        found.append(GivenVectors(name, None, array_digest(rows), name, rows))
    return found


def row_texts(
    files: Sequence[GivenVectors],
    texts: Texts | None,
    text: str | None,
    *,
    column: str | None,
    labels: str | None,
    groups: str | None,
    alone: bool,
) -> Texts:
    """Return the sentences of a page: `texts`, of a file with a row per vector; else what the vectors' rows have.

    `text`: the column of the first file of vectors that holds sentences; without it the rows have numbers, which
    suffice where vectors are `alone`. Raises `InputError` without sentences for checkpoints, if numbers of rows differ,
    and if the same column of another file has other cells.
    """
    counts = {one.given: one.rows.rows for one in files}
    if texts is not None:
        counts = {str(text): texts.rows} | counts
    elif not files and text is not None:
        raise InputError(f"{text}: no such file")
    elif not files or (text is None and not alone):
        raise InputError("--text: a checkpoint reads sentences; name their file")
    elif column is not None:
        raise InputError(f"--column {column}: names a column of a file of sentences; name the file by --text")
    if len({*counts.values()}) > 1 and files:
        said = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InputError(f"rows: {said}; row i of each must be the same item: drop rows, or make a page of each")
    return texts or _own_texts(files, text, labels, groups)


def _own_texts(files: Sequence[GivenVectors], text: str | None, labels: str | None, groups: str | None) -> Texts:
    """Return what columns of the first file say of its rows, and tell the user what is left out of them."""
    first, asked = files[0], [name for name in (text, labels, groups) if name is not None]
    raw = first.columns(asked) if asked else Raw(first.given, None)
    for other in (one for one in files[1:] if asked and one.rows.further):
        _check_equal(raw, other.columns(asked), asked)
    origin = Path(first.given).name + (f", column {text!r}" if text else "")
    options: dict[str, Any] = {"labels": labels, "groups": groups, "named": "--text, and no such file"}
    found = texts_of(raw, first.digest, column=text, rows=first.rows.rows, origin=origin, **options)
    found.check_enough()
    for note in filter(None, [found.left_out, *found.notes]):
        print(f"isoscope: {note}", file=sys.stderr)
    return found


def _check_equal(one: Raw, other: Raw, names: Sequence[str]) -> None:
    for name in names:
        if {name} <= {*other.table.column_names} and one.table.num_rows == other.table.num_rows:
            cells, others = (each.table[name].to_pylist() for each in (one, other))
            if cells != others:
                row = next(row for row, pair in enumerate(zip(cells, others, strict=True)) if pair[0] != pair[1])
                raise InputError(
                    f"{other.place}, row {row + 1}: column {name!r} is {others[row]!r}, and in {one.place} "
                    f"{cells[row]!r}; sort both alike, or make a page of each"
                )


def given_states(one: GivenVectors, texts: Texts, settings: Settings, cache: Path) -> Trajectory:
    """Return drawn rows of vectors in the form of a checkpoint's hidden states; from the cache if they are there."""
    drawn = probe.draw_rows(texts.table, [], share=1.0, most=settings.sentences, seed=settings.seed)
    about = {"vectors": one.digest, "columns": one.rows.columns, "texts": texts.digest, "seed": settings.seed}
    about |= {"sentences": settings.sentences, "rows": texts.kept, "code": code_version("checkpoint_states")}

    def fill(folder: Path) -> None:
        places = drawn if texts.kept is None else np.array(texts.kept)[drawn]
        write_given(folder, one.rows.take(places, one.name), texts, drawn)
        one.check_unchanged()

    return Trajectory(kept(cache / "states", about, fill, "states"))


def write_given(folder: Path, points: Vectors, texts: Texts, drawn: Indices) -> None:
    """Write vectors `[n, width]` of the rows `drawn` of a table, as the states of a model without tokens."""
    table = texts.table.take(drawn)
    found = {"row": drawn, "label": tokens.classes(table)}
    found |= {} if texts.numbered else {"text": table["sentence"].to_pylist()}
    found |= {"group": table["group"].to_numpy()} if "group" in table.column_names else {}
    write_parquet(pd.DataFrame(found), folder / PROBE)
    write_parquet(pd.DataFrame({"sentence": [], "position": [], "text": []}), folder / WORDS)
    write_parquet(pd.DataFrame({"token": [], "end": np.zeros(0, bool)}), folder / TOKENS)
    write_arrays(folder / "states" / "checkpoint.safetensors", {GIVEN: points[None]}, "")
    facts = {"sentences": len(drawn), "truncated": 0, "causal": False, "cls": False, "pieces": {}, "given": True}
    facts |= {"sentence": False, "no_sentence": None, "about": [[], []]}
    write_snapshots(folder, [Snapshot("checkpoint", 0, None, True, "")], facts | {"lacking": NO_MODEL})
