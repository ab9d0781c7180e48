"""How two runs differ in what determines their numbers: parameters, data, plug-ins, other runs, code."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from isoscope.base.paths import Project, processed
from isoscope.platform.config.tree import NOT_IN_DIGEST, as_text
from isoscope.platform.runs.code_changes import (
    Functions,
    changed_functions,
    commit_of,
    committed_functions,
    kept_functions,
)
from isoscope.platform.runs.lines import PLUGIN, Run
from isoscope.platform.runs.prepared import SETTINGS
from isoscope.platform.runs.record import read
from isoscope.platform.runs.stored import files_of

PARAMETER, DATA, INPUT, CODE = "parameter", "data", "input", "code"
ABSENT = "absent"
LONGEST = 60
"""Characters of a row that a difference shows."""


class Difference(NamedTuple):
    """One thing that differs: its kind (parameter, data, plug-in, input, code), its name, both values, and a text."""

    kind: str
    name: str
    old: Any
    new: Any
    text: str


def differences(project: Project, old: Run, new: Run, *, now: Functions | None = None) -> list[Difference]:
    """Return how the identity of a run differs from that of an earlier run, in every part that is in its digest.

    `now`: the functions of the new run's code [default: those that were kept beside the records].
    """
    found = [*values_that_differ("parameter", _counted(old.params), _counted(new.params))]
    plugins = [{name: one for name, one in run.tags.items() if name.startswith(PLUGIN)} for run in (old, new)]
    for name, (before, after) in _pairs(*plugins):
        file, said = name.removeprefix(PLUGIN), "changed"
        said = "added" if before == ABSENT else "removed" if after == ABSENT else said
        found.append(Difference("plug-in", file, before, after, f"plug-in {file} was {said}"))
    for path, (before, after) in _pairs(old.inputs, new.inputs):
        of_data = Path(path).parent == processed("any").parent
        found += _data(project, path, before, after) if of_data else [_input(path, before, after)]
    return [*found, *_code(project, old, new, now)]


def _counted(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name not in NOT_IN_DIGEST}


def _pairs(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Yield name → both values of each value that differs."""
    for name in sorted(old.keys() | new.keys()):
        pair = (old.get(name, ABSENT), new.get(name, ABSENT))
        if json.dumps(pair[0]) != json.dumps(pair[1]):
            yield name, pair


def values_that_differ(kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield each value that differs, by name; a value that one of them lacks is `ABSENT` there."""
    for name, (before, after) in _pairs(old, new):
        yield Difference(kind, name, before, after, f"{name} {as_text(before)} → {as_text(after)}")


def environment(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    """Return how the circumstances of two attempts differ: versions of libraries, device, variables of the shell."""
    return [*values_that_differ("environment", old, new)]


def _input(path: str, old: str, new: str) -> Difference:
    said = f"{path} is new" if old == ABSENT else f"{path} is no input any more" if new == ABSENT else f"{path} changed"
    return Difference(INPUT, path, old, new, said)


def _data(project: Project, path: str, old: str, new: str) -> Iterator[Difference]:
    """Yield how the files of prepared data differ, with the rows of each split."""
    if ABSENT in (old, new):
        yield Difference(DATA, path, old, new, f"{path} is {'new' if old == ABSENT else 'not read any more'}")
        return
    before, after = files_of(project, path, old), files_of(project, path, new)
    if before is None or after is None:
        yield Difference(
            DATA, path, old, new, f"{path} changed; DVC's cache has no copy of the earlier files to compare"
        )
        return
    for name in sorted({*before, *after} - {SETTINGS}):
        of_old, of_new = before.get(name), after.get(name)
        if of_old is None or of_new is None:
            said = f"{path}/{name} was {'added' if of_old is None else 'removed'}"
        elif of_old.read_bytes() == of_new.read_bytes():
            continue
        elif name.endswith(".parquet"):
            said = f"{path}/{name}: {rows_said(_rows(of_old), _rows(of_new))}"
        else:
            said = f"{path}/{name} changed"
        yield Difference(DATA, f"{path}/{name}", old, new, said)


def _rows(file: Path) -> list[str]:
    return [json.dumps(row, ensure_ascii=False, default=str) for row in pq.read_table(file).to_pylist()]


def rows_said(old: Sequence[str], new: Sequence[str]) -> str:
    """Return how many rows were changed (at the same place), added and removed, with the first of them."""
    gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
    pairs = enumerate(zip(old, new, strict=False), start=1)
    same = [place for place, (one, other) in pairs if one in gone and other in come] if len(old) == len(new) else []
    parts = [("changed", len(same)), ("added", come.total() - len(same)), ("removed", gone.total() - len(same))]
    said = ", ".join(f"{number:,} row{'s' * (number > 1)} {what}" for what, number in parts if number)
    if not said:
        return "the same rows in another order"
    if same:
        place = same[0]
        return f"{said}, the first in row {place}: {_short(old[place - 1])} → {_short(new[place - 1])}"
    return f"{said}, such as {_short(next(iter(come or gone)))}"


def _short(row: str) -> str:
    return row if len(row) <= LONGEST else f"{row[:LONGEST]}…"


def _commit(project: Project, run: Run) -> str | None:
    """Return the commit that a run was made from; None if it is not known, or if files had changed since."""
    file = project.records / f"{run.digest}.jsonl"
    author = read(file).author if file.is_file() else None
    return author.git.get("commit") if author and not author.git.get("dirty") else None


def _code(project: Project, old: Run, new: Run, now: Functions | None) -> Iterator[Difference]:
    """Yield each function that differs, with the commit that changed it."""
    if old.code == new.code:
        return
    after = kept_functions(project, new.code) if now is None else now
    before = kept_functions(project, old.code) or committed_functions(_commit(project, old), after or {})
    if not before or after is None:
        why = "which functions is unknown: the run kept no list of them, and its commit is not here or had changes"
        yield Difference(CODE, "", old.code, new.code, f"the code changed ({why})")
        return
    for file, name in changed_functions(before, after):
        pair = (before.get(file, {}).get(name, ABSENT), after.get(file, {}).get(name, ABSENT))
        verb = "is new" if pair[0] == ABSENT else "is gone" if pair[1] == ABSENT else "changed"
        commit = commit_of(file, name)
        by = f" ({commit})" if commit else ""
        what = f"{name} in {file}" if name else f"{file}, outside its functions,"
        yield Difference(CODE, f"{file}:{name}", *pair, f"{what} {verb}{by}")
