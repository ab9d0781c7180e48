"""Read a user's sentences as a table: alone, with classes, with what a model should predict, or with translations."""

import hashlib
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from isoscope.base.atomic_files import sha256
from isoscope.base.errors import InputError
from isoscope.data import treebank
from isoscope.data.classes import in_order, read_classes
from isoscope.data.columns import lists, numbers, strings
from isoscope.data.corpus import PAIR, SINGLE
from isoscope.data.encoding import check_utf8
from isoscope.data.files import Raw, read_file

USUAL = ("sentence", "text")
"""Columns of the text, the first that a file has."""
FEWEST = 4
"""Minimum number of distinct sentences in a file."""
MANY, LEAST = 20, 2
"""More classes than the first, with fewer rows per class than the second on average: the column is text or numbers."""


class Texts(NamedTuple):
    """A table with `sentence` and, if there are classes, `label` (0 … C − 1); class names; sha256 of the file.

    Of a treebank the table also has `tokens`, which a sentence joins by spaces, and their `tags`.

    `origin`: file name and columns, as text. `rows`: number of rows in the file, including rows without a sentence.
    """

    table: pa.Table
    classes: tuple[str, ...]
    sha256: str
    origin: str
    rows: int
    notes: tuple[str, ...] = ()
    """Sentences about labels that may be mistakes."""
    kept: tuple[int, ...] | None = None
    """Row of the file (from 0) of each row of the table; None: not known."""
    numbered: bool = False
    """Whether the rows have no text: then their sentence is their number."""
    groups: str | None = None
    """Column of the groups."""

    @property
    def left_out(self) -> str | None:
        """A sentence about the rows that are left out; None if all rows are used."""
        empty, repeated = self.rows - len(self.table), len(self.table) - self._different
        found = [f"{empty} of {self.rows} rows are empty"] if empty else []
        found += [f"{repeated} of {self.rows} rows repeat an earlier sentence"] if repeated else []
        return f"{self.origin}: {' and '.join(found)}; left out" if found else None

    def check_enough(self) -> None:
        """Raise `InputError` if there are too few distinct sentences for any measure."""
        if self._different < FEWEST:
            raise InputError(
                f"{self.origin}: {self._different} different sentences in {self.rows} rows; "
                f"at least {FEWEST} are needed, and some hundreds for meaningful measures"
            )

    @property
    def _different(self) -> int:
        return len(set(self.table["sentence"].to_pylist()))

    @property
    def tagged(self) -> list[tuple[list[str], list[str]]] | None:
        """Tokens and their tags of each sentence; None without tags."""
        if "tags" not in self.table.column_names:
            return None
        return list(zip(*(self.table[name].to_pylist() for name in ("tokens", "tags")), strict=True))

    @property
    def digest(self) -> str:
        """sha256 (hex) of sentences, labels, class names and tags; it differs between columns of a file."""
        return hashlib.sha256(json.dumps([self.table.to_pydict(), self.classes]).encode()).hexdigest()


def read_texts(path: Path, *, column: str | None, labels: str | None, groups: str | None = None) -> Texts:
    """Read sentences from a parquet, csv, tsv or jsonl file, or from a .txt file with one sentence per line.

    Empty sentences are left out. `column`: text column [default: `sentence` or `text`]; `labels`: column of the
    classes, text or integers; `groups`: column that is equal in rows that belong together, which then have a number as
    `group`. Classes that all read as integers keep their numeric order, others are sorted. Raises `InputError` with
    file, row and column.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if path.suffix == ".txt":
        if (column, labels, groups) != (None, None, None):
            raise InputError(f"{path}: is plain text and has no columns; give csv, tsv, jsonl or parquet")
        data = path.read_bytes()
        check_utf8(data, path)
        lines = pa.array(io.StringIO(data.decode("utf-8-sig"), newline=None))
        raw = Raw(str(path), pa.table({"sentence": lines}), {path.name: hashlib.sha256(data).hexdigest()})
        return texts_of(raw, raw.inputs[path.name], column="sentence", origin=path.name)
    kinds = {kind: name for kind, name in (("label", labels), ("group", groups)) if name is not None}
    raw, name = _with_texts(path, column, **kinds)
    named = "--column" if column else "or 'sentence'; name it with --column"
    origin = f"{path.name}, column {name!r}"
    return texts_of(raw, raw.inputs[path.name], column=name, labels=labels, groups=groups, origin=origin, named=named)


def texts_of(
    raw: Raw,
    digest: str,
    *,
    column: str | None,
    labels: str | None = None,
    groups: str | None = None,
    origin: str,
    rows: int = 0,
    named: str = "--column",
) -> Texts:
    """Return the sentences of a table with the sha256 `digest`, as `read_texts`; without a column, `rows` numbers."""
    if column is None:
        sentences = [f"row {number}" for number in range(1, rows + 1)]
    else:
        sentences = [(text or "").strip() for text in strings(raw, column, named).to_pylist()]
    kept = [row for row, text in enumerate(sentences) if text]
    table: dict[str, list[Any]] = {"sentence": [sentences[row] for row in kept]}
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    if labels is not None:
        origin += f", classes by {labels!r}"
        values = _cells(raw, labels, "--labels", kept)
        read = read_classes({*values}, raw.place, labels)
        classes, notes = tuple(in_order({*read.names.values()})), read.notes
        if len(classes) < 2:
            raise InputError(f"{raw.place}: column {labels!r} has only one value; two or more classes are needed")
        if len(classes) > MANY and len(kept) < LEAST * len(classes):
            raise InputError(
                f"{raw.place}: column {labels!r} has {len(classes)} values in {len(kept)} rows, so these are not "
                f"classes: at least {LEAST} rows per class are needed, on average"
            )
        numbers = {name: number for number, name in enumerate(classes)}
        table["label"] = [numbers[read.names[one]] for one in values]
    if groups is not None:
        own = _cells(raw, groups, "--groups", kept)
        origin += f", groups by {groups!r}"
        table["group"] = [*map({name: number for number, name in enumerate(sorted({*own}))}.__getitem__, own)]
    return Texts(pa.table(table), classes, digest, origin, len(sentences), notes, tuple(kept), column is None, groups)


def _cells(raw: Raw, column: str, named: str, kept: list[int]) -> list[str]:
    """Return the cells of a column in the rows `kept`, as text. Raises `InputError` for an empty cell."""
    values = strings(raw, column, named, classes=True).to_pylist()
    if lacking := [row for row in kept if values[row] is None]:
        raise InputError(f"{raw.place}, row {lacking[0] + 1}: column {column!r} is empty; fill it or drop the row")
    return [str(values[row]) for row in kept]


def _with_texts(path: Path, column: str | None, *others: str, **targets: str) -> tuple[Raw, str]:
    """Read the text column [default: the first of `USUAL` that the file has] with others, and return its name too.

    `targets`: columns by their kind, as `read_file`.
    """
    for name in [column] if column else USUAL:
        raw = read_file(path, [name, *others, *targets.values()], **targets)
        if name in raw.table.column_names:
            break
    return raw, name


def read_tagged_texts(path: Path, *, column: str | None) -> Texts:
    """Read the sentences of a treebank with their tags; of another file, or of a given column, as `read_texts`.

    Raises `InputError` as `treebank.tagged` and `read_texts`.
    """
    rows = treebank.tagged(path) if column is None else None
    if rows is None:
        return read_texts(path, column=column, labels=None)
    kept = [(" ".join(tokens), tokens, tags) for tokens, tags in rows if any(map(str.strip, tokens))]
    columns = {name: [row[place] for row in kept] for place, name in enumerate(("sentence", "tokens", "tags"))}
    origin = f"{path.name}, columns 'tokens' and 'upos'"
    return Texts(pa.table(columns), (), sha256(path), origin, len(rows))


class Pairs(NamedTuple):
    """Sentences, and their references or None."""

    sources: list[str]
    references: list[str] | None


def read_pairs(path: Path, *, column: str, references: str | None, sentences: int | None) -> Pairs:
    """Read the first `sentences` rows (None: all) of a parquet, csv, tsv or jsonl file.

    Raises `InputError` for a column that the file lacks, and for an empty cell.
    """
    named = {"sentences": column} | ({} if references is None else {"translations": references})
    raw, found = read_file(path, named.values()), {}
    for of, name in named.items():
        texts = strings(raw, name, f"of the {of}").to_pylist()[:sentences]
        if empty := [row for row, text in enumerate(texts, 1) if not (text or "").strip()]:
            raise InputError(f"{path}, row {empty[0]}: column {name!r} is empty")
        found[of] = texts
    if not found["sentences"]:
        raise InputError(f"{path}: no rows")
    return Pairs(found["sentences"], found.get("translations"))


class Targets(NamedTuple):
    """`table`: texts as `sentence`, or `sentence1` and `sentence2`; what is true of each; name and sha256 of the file.

    True is a class name, a number (of kind `score`), or a list of labels (of kind `labels`).
    """

    table: pa.Table
    true: list[Any]
    name: str
    sha256: str


def read_targets(
    path: Path,
    *,
    column: str | None,
    other: str | None,
    target: str,
    kind: str,
    separator: str | None = None,
    named: str = "",
) -> Targets:
    """Read texts, or pairs of texts if there is an `other` column, with the column `target`.

    `kind`: label (as it is written), score or labels. `separator`: between labels of a row; None: the column holds
    lists. `named`: what names the columns, for errors [default: the options]. Raises `InputError` with the row of an
    empty text or target, and as `isoscope.data.columns`.
    """
    raw, name = _with_texts(path, column, *filter(None, [other]), **{kind: target})
    both = zip(filter(None, (name, other)), ("--column", "--other-column"), strict=False)
    texts = [_whole(path, one, strings(raw, one, named or option).to_pylist()) for one, option in both]
    true: list[Any]
    if kind == "labels":
        true = lists(raw, target, "--labels", separator, by="--separator")
    elif kind == "score":
        true = _whole(path, target, numbers(raw, target, named or "--score"))
    else:
        true = _whole(path, target, strings(raw, target, "--labels", classes=True).to_pylist())
    table = pa.table(dict(zip(PAIR if other else SINGLE, texts, strict=True)))
    return Targets(table, true, path.name, raw.inputs[path.name])


def _whole(path: Path, column: str, values: list[Any]) -> list[Any]:
    """Return the values of a column. Raises `InputError` for a row without a value."""
    if empty := [row for row, value in enumerate(values, 1) if value is None or not str(value).strip()]:
        raise InputError(f"{path}, row {empty[0]}: column {column!r} is empty; fill it or drop the row")
    return values
