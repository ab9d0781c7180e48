"""Corpus: the common form of every data set, with three splits, text columns and, if it has one, a target.

`build` makes a corpus of raw tables: it renames columns, numbers labels and holds out missing splits from train.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from isoscope.base.errors import InputError
from isoscope.data.classes import INTEGER, class_names, in_order, read_classes, whole_numbers
from isoscope.data.columns import lists, numbers, strings
from isoscope.data.files import Raw
from isoscope.data.target_checks import check_targets

SPLITS = ("train", "validation", "test")
SINGLE = ("sentence",)
PAIR = ("sentence1", "sentence2")
TARGETS = ("label", "score", "labels")
"""Columns of a target: the class of each text, its score, or all its labels."""
GROUP = "group"
TREEBANK = "treebank.parquet"
"""File of a task's own treebank, beside its splits."""


class Corpus(NamedTuple):
    """A task: texts with a target, or a text task, which has none.

    `splits`: exactly `train`, `validation` and `test`, each a table with `sentence` (or `sentence1`, `sentence2`) as
    strings, and one column of `TARGETS`: `label` as int64 in 0..C-1, `score` as float64, or `labels` as ascending lists
    of int64. `labels`: names of class or label 0, 1, …; empty without them. In a text task, the columns of a pair are
    source and target language. `facts`: statements of the source about itself (such as a Bayes ceiling), copied to the
    manifest. `trees`: a treebank of its sentences, if known (see `treebank.read`). `notes`: sentences about labels that
    may be mistakes.
    """

    splits: dict[str, pa.Table]
    labels: tuple[str, ...]
    source: str
    licence: str
    revision: str | None
    facts: dict[str, object]
    trees: pa.Table | None = None
    notes: tuple[str, ...] = ()


def text_columns(table: pa.Table) -> tuple[str, ...]:
    """Return the names of the text columns of `table`: `("sentence",)` or `("sentence1", "sentence2")`."""
    return PAIR if PAIR[0] in table.column_names else SINGLE


def target_of(table: pa.Table) -> str | None:
    """Return the column that a model predicts: `label`, `score` or `labels`; None in a text task."""
    return next((one for one in TARGETS if one in table.column_names), None)


def texts(table: pa.Table) -> list[tuple[str, ...]]:
    """Return the text of each row: `(sentence,)` or `(sentence1, sentence2)`."""
    return list(zip(*(table[column].to_pylist() for column in text_columns(table)), strict=True))


def build(
    raw: Mapping[str, Raw],
    *,
    columns: Mapping[str, str],
    held_out: float,
    seed: int,
    source: str,
    licence: str,
    revision: str | None = None,
    separator: str | None = None,
) -> Corpus:
    """Make a corpus of the splits in `raw`; a missing split is held out from train.

    `columns` maps `sentence` (or `sentence1`, `sentence2`), at most one of `TARGETS`, and `group` to the names in the
    source; without a target the corpus is a text task. Labels that all are integers keep their numeric order, others
    are sorted. `separator` splits a column of `labels` that holds text. `held_out` is the fraction of train each
    missing split takes. No group is in two splits.
    The corpus' facts name what was held out, the sha256 of the files read, and the number of groups by split.
    Raises `InputError` for invalid input; it names file, row and column.
    """
    targets = [one for one in TARGETS if one in columns]
    if {*columns} - {*TARGETS, GROUP} not in ({*SINGLE}, {*PAIR}) or len(targets) > 1:
        raise InputError(
            "columns: expected sentence, or sentence1 and sentence2, with at most one of label, score and labels (a "
            f"text task has none); got {sorted(columns)}"
        )
    if len(set(columns.values())) < len(columns):
        raise InputError(f"columns: each must name a different column; got {', '.join(columns.values())}")
    splits = {split: _rename(raw[split], columns, separator) for split in SPLITS if split in raw}
    named = next((one for one in targets if one != "score"), None)
    labels, notes = _number(splits, raw, named, columns[named]) if named else ((), ())
    names = class_names(raw["train"].table.schema, columns.get(named or ""))
    if names is not None and all(INTEGER.fullmatch(label) and 0 <= int(label) < len(names) for label in labels):
        labels = tuple(names[int(label)] for label in labels)
    if GROUP in columns:
        _name_groups(splits)
        _check_groups(splits, raw)
    if missing := [split for split in SPLITS if split not in splits]:
        splits |= hold_out(splits, missing, fraction=held_out, seed=seed, source=source, names=labels)
    if targets:
        check_targets(splits, labels, source, targets[0])
    facts: dict[str, object] = {"held_out": dict.fromkeys(missing, held_out)}
    if inputs := {name: sha256 for one in raw.values() for name, sha256 in one.inputs.items()}:
        facts["inputs"] = inputs
    if GROUP in columns:
        facts["groups"] = {"column": columns[GROUP]} | {split: len(splits[split][GROUP].unique()) for split in SPLITS}
    kept = [one for one in splits["train"].column_names if one != GROUP]
    tables = {split: splits[split].select(kept).combine_chunks() for split in SPLITS}
    return Corpus(tables, labels, source, licence, revision, facts, notes=notes)


def _check_groups(splits: Mapping[str, pa.Table], raw: Mapping[str, Raw]) -> None:
    """Check that no group is in two splits."""
    groups = {split: {*table[GROUP].to_pylist()} for split, table in splits.items()}
    for one, other in combinations(groups, 2):
        if shared := groups[one] & groups[other]:
            raise InputError(
                f"{raw[other].place}: group {min(shared)!r} is in {one}, too ({len(shared)} such groups); a group "
                "belongs into one split: move its rows (of files and data sets, splits.validation and splits.test null "
                "hold whole groups out)"
            )


def _name_groups(splits: dict[str, pa.Table]) -> None:
    """Name equal groups alike in all splits, as classes are: without spaces around them, and 1.0 as 1; in place."""
    written = {split: table[GROUP].to_pylist() for split, table in splits.items()}
    names = whole_numbers({group: group.strip() for own in written.values() for group in own})
    for split, table in splits.items():
        named = pa.array([names[group] for group in written[split]], pa.string())
        splits[split] = table.set_column(table.column_names.index(GROUP), GROUP, named)


def _rename(raw: Raw, columns: Mapping[str, str], separator: str | None) -> pa.Table:
    """Return `raw.table` with our columns only, without nulls; label and labels as text (numbered later)."""
    arrays: dict[str, Any] = {}
    for ours in (one for one in (*SINGLE, *PAIR, *TARGETS, GROUP) if one in columns):
        name, named = columns[ours], f"for {ours}"
        if ours == "labels":
            values = pa.array(lists(raw, name, named, separator), pa.list_(pa.string()))
        elif ours == "score":
            values = pa.array(numbers(raw, name, named), pa.float64())
        else:
            values = strings(raw, name, named, classes=ours in ("label", GROUP))
        if values.null_count:
            row = pc.index(pc.is_null(values), True).as_py() + 1
            raise InputError(
                f"{raw.place}, row {row}: column {name!r} is null ({values.null_count} in all); fill or drop the row"
            )
        arrays[ours] = values
    if not raw.table.num_rows:
        raise InputError(
            f"{raw.place}: no rows; add rows (or set validation or test to null, to hold it out from train)"
        )
    return pa.table(arrays)


def _number(
    splits: dict[str, pa.Table], raw: Mapping[str, Raw], target: str, column: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Replace the texts of the column `target` by numbers, in place; return the classes of train, and notes."""
    several = target == "labels"
    written = {
        split: [own if several else [own] for own in table[target].to_pylist()] for split, table in splits.items()
    }
    every = {label for rows in written.values() for own in rows for label in own}
    names, notes = read_classes(every, raw["train"].place, column, several=several)
    classes = in_order({names[label] for own in written["train"] for label in own})
    index = {name: number for number, name in enumerate(classes)}
    for split, table in splits.items():
        for row, own in enumerate(written[split], start=1):
            if unknown := [label for label in own if names[label] not in index]:
                raise InputError(
                    f"{raw[split].place}, row {row}: label {unknown[0]!r} does not occur in train "
                    f"({', '.join(classes[:10])})"
                )
        found = [sorted({index[names[label]] for label in own}) for own in written[split]]
        values = pa.array(found, pa.list_(pa.int64()))
        place = table.column_names.index(target)
        splits[split] = table.set_column(place, target, values if several else values.flatten())
    return tuple(classes), notes


def hold_out(
    splits: Mapping[str, pa.Table],
    missing: Sequence[str],
    *,
    fraction: float,
    seed: int,
    source: str,
    names: Sequence[str] = (),
) -> dict[str, pa.Table]:
    """Return tables for `missing` and a smaller `train`: each missing split takes `fraction` of each class of train.

    Rows with scores, with several labels, or without a target are drawn as if they had one class. With a column `group`
    whole groups are drawn, of all classes together: a group is taken if it brings the number of rows nearer to
    `fraction`. Train keeps a row of every class and label.

    Rows are drawn by sha256 of (seed, split, text or group), so the draw depends only on these and the quota. Rows with
    equal text stay together, and a text that also occurs in a given split stays in train, so the draw adds no
    duplicates across splits. Raises `InputError` if the fraction leaves a class without rows on one side; `names`: of
    the classes.
    """
    train = splits["train"]
    if not 0 < fraction * len(missing) < 1:
        raise InputError(
            f"held_out: {fraction} of train for each of {', '.join(missing)}: must leave rows on both sides"
        )
    said, grouped = texts(train), GROUP in train.column_names
    given = {text for split, table in splits.items() if split != "train" for text in texts(table)}
    units = _units(train)
    free = {unit: rows for unit, rows in units.items() if given.isdisjoint(said[row] for row in rows)}
    target = target_of(train)
    targets: list[Any] = train[target].to_pylist() if target in ("label", "labels") else [0] * train.num_rows
    owned: list[list[int]] = targets if target == "labels" else [[one] for one in targets]
    left = Counter(one for own in owned for one in own)
    strata = [0] * train.num_rows if grouped or target == "labels" else targets
    sizes = Counter(strata)
    drawn: dict[str, list[int]] = {}
    for split in missing:
        quota = Counter({label: max(1, round(fraction * size)) for label, size in sizes.items()})
        drawn[split] = []
        for unit in sorted(free, key=lambda unit: _digest(str(seed), split, *unit)):
            needed = Counter(strata[row] for row in free[unit])
            used = Counter(one for row in free[unit] for one in owned[row])
            fits = all(size <= quota[label] * (2 if grouped else 1) for label, size in needed.items())
            if fits and all(size < left[one] for one, size in used.items()):
                quota.subtract(needed)
                left -= used
                drawn[split] += free.pop(unit)
    gone = {row for rows in drawn.values() for row in rows}
    drawn["train"] = [row for row in range(train.num_rows) if row not in gone]
    for rows in drawn.values():
        if short := sorted(set(sizes) - {strata[row] for row in rows}):
            whole = f"class {names[short[0]]!r}" if strata is targets and names else "train"
            different = sum(any(strata[row] == short[0] for row in same) for same in units.values())
            what = "group" if grouped else "text"
            counted = _joined(train, different) if grouped else f"{different} different texts"
            why = f"train and each split that is held out need a {what} of their own"
            if different > len(missing):
                why = f"a {what} stays in train if it has too many rows, the last of a class, or is in a given split"
            merge = ", merge small classes" if strata is targets and names else ""
            raise InputError(
                f"{source}: {whole} has {sizes[short[0]]} rows with {counted}, but {why}; add rows"
                f"{merge}, or give each split a file"
            )
    return {split: train.take(sorted(rows)) for split, rows in drawn.items()}


def _joined(train: pa.Table, units: int) -> str:
    """Return how many groups there are, and by which text they are joined to fewer `units`, if they are."""
    frame = train.to_pandas()
    groups, owners = frame[GROUP].nunique(), frame.groupby([*text_columns(train)], sort=False)[GROUP].nunique()
    if units == groups:
        return f"{units} different groups"
    return f"{groups} groups that equal texts, such as {owners.idxmax()!r:.60}, join to {units}"


def _units(train: pa.Table) -> dict[tuple[str, ...], list[int]]:
    """Return the rows that stay together, by what they are drawn by.

    These are rows with equal text, by their text; with groups, all rows of groups that share a text, by the group that
    is first by name.
    """
    found: dict[tuple[str, ...], list[int]] = {}
    for row, text in enumerate(texts(train)):
        found.setdefault(text, []).append(row)
    if GROUP not in train.column_names:
        return found
    groups = train[GROUP].to_pylist()
    first = {group: group for group in groups}

    def root(group: str) -> str:
        while first[group] != group:
            group = first[group]
        return group

    for rows in found.values():
        for row in rows:
            earlier, later = sorted((root(groups[rows[0]]), root(groups[row])))
            first[later] = earlier
    units: dict[tuple[str, ...], list[int]] = {}
    for row, group in enumerate(groups):
        units.setdefault((root(group),), []).append(row)
    return units


def _digest(*parts: str) -> bytes:
    return hashlib.sha256("\x1f".join(parts).encode()).digest()
