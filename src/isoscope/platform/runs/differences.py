"""How two runs differ in what determines their numbers: parameters, plug-ins, rows of data, other runs, code."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from isoscope.base.paths import Project, processed
from isoscope.base.symlinks import dvc_cache
from isoscope.platform.config.tree import NOT_IN_DIGEST, as_text
from isoscope.platform.runs.code_changes import Functions, changed_functions, commit_of, functions_of
from isoscope.platform.runs.lines import PLUGIN, Run
from isoscope.platform.runs.prepared import SETTINGS
from isoscope.platform.runs.provenance import dvc_md5, file_md5s
from isoscope.platform.runs.stored import cached_file, listing

PARAMETER, PLUG_IN, DATA, INPUT, CODE, ENVIRONMENT = "parameter", "plug-in", "data", "input", "code", "environment"
ABSENT = "absent"
_LONGEST = 60
"""Characters of a row that a difference shows."""


class Difference(NamedTuple):
    """One thing that differs: its kind (`PARAMETER` …), its name, both values (or `ABSENT`), and a line of text."""

    kind: str
    name: str
    old: Any
    new: Any
    text: str


def differences(
    project: Project, old: Run, new: Run, *, now: Functions | None = None, brief: bool = False
) -> list[Difference]:
    """Return how a run differs from an earlier run, in everything that is part of its digest.

    `now`: the functions of the new run's code [default: those that were kept beside the records]. `brief`: data and
    code are named only, which takes no time.
    """
    found = [one for one in values_that_differ(old.params, new.params) if one.name not in NOT_IN_DIGEST]
    plugins = [{name: one for name, one in run.tags.items() if name.startswith(PLUGIN)} for run in (old, new)]
    found += [
        one._replace(name=file, text=f"{file}: {_verb(one)}")
        for one in values_that_differ(plugins[0], plugins[1], PLUG_IN)
        for file in [one.name.removeprefix(PLUGIN)]
    ]
    for one in values_that_differ(old.inputs, new.inputs, INPUT):
        is_data = Path(one.name).parent == processed("any").parent
        named = [one._replace(kind=DATA if is_data else INPUT, text=f"{one.name}: {_verb(one)}")]
        found += _of_data(project, one) if is_data and not brief else named
    code = Difference(CODE, "", old.code, new.code, "the code: changed")
    return [*found, *([] if old.code == new.code else [code] if brief else _of_code(project, old, new, now))]


def values_that_differ(old: Mapping[str, Any], new: Mapping[str, Any], kind: str = PARAMETER) -> Iterator[Difference]:
    """Yield each value that differs, by name; a value that one of them lacks is `ABSENT` there."""
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name, ABSENT), new.get(name, ABSENT)
        if json.dumps(before) != json.dumps(after):
            yield Difference(kind, name, before, after, f"{name} {as_text(before)} → {as_text(after)}")


def _verb(one: Difference) -> str:
    return "added" if one.old == ABSENT else "removed" if one.new == ABSENT else "changed"


def _of_data(project: Project, whole: Difference) -> Iterator[Difference]:
    """Yield the files of prepared data that differ, with the rows of each split; its settings are in no digest."""
    old, new = (_files(project, whole.name, md5) for md5 in (whole.old, whole.new))
    if old is None or new is None:
        why = " (or its settings only); DVC's cache has no earlier copy to compare with" * (_verb(whole) == "changed")
        yield whole._replace(kind=DATA, text=f"{whole.name}: {_verb(whole)}{why}")
        return
    for name in sorted((old.keys() | new.keys()) - {SETTINGS}):
        files = [side[name] for side in (old, new) if name in side]
        if len({file.read_bytes() for file in files}) + len(files) != 3:  # not two files with the same bytes
            said = _rows_said(*map(_rows, files)) if name.endswith(".parquet") and files[1:] else "changed"
            said = said if files[1:] else "added" if name in new else "removed"
            yield whole._replace(kind=DATA, name=f"{whole.name}/{name}", text=f"{whole.name}/{name}: {said}")


def _files(project: Project, path: str, md5: str) -> dict[str, Path] | None:
    """Return the files of the folder that had a DVC hash: the folder's own, or DVC's copies; None without them all."""
    folder = project.folder / path
    if folder.is_dir() and dvc_md5(folder) == md5:
        return {name: folder / name for name in file_md5s(folder)}
    cache = dvc_cache(project) if (project.state / ".dvc").is_dir() else None
    files = {name: cached_file(cache, known) for name, known in listing(cache, md5).items()} if cache else {}
    return files if files and all(file.is_file() for file in files.values()) else None


def _rows(file: Path) -> list[str]:
    return [json.dumps(row, ensure_ascii=False, default=str) for row in pq.read_table(file).to_pylist()]


def _rows_said(old: Sequence[str], new: Sequence[str]) -> str:
    """Return how many rows were changed (at the same place), added and removed, with the first of them."""
    gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
    both = zip(old, new, strict=False) if len(old) == len(new) else ()
    same = [(one, other) for one, other in both if one in gone and other in come]
    rest = {"added": come.total() - len(same), "removed": gone.total() - len(same)}
    said = [f"{n:,} row{'s' * (n > 1)} {what}" for what, n in {"changed": len(same), **rest}.items() if n]
    such = [" → ".join(_short(row) for row in pair) for pair in same[:1]] or [_short(row) for row in [*come, *gone][:1]]
    return f"{', '.join(said)}, such as {such[0]}" if said else "the same rows in another order"


def _short(row: str) -> str:
    return row if len(row) <= _LONGEST else f"{row[:_LONGEST]}…"


def _of_code(project: Project, old: Run, new: Run, now: Functions | None) -> Iterator[Difference]:
    """Yield each function that differs, with the commit that changed it."""
    whole = Difference(CODE, "", old.code, new.code, "the code: changed")
    after = now or functions_of(project, new, ())
    before = functions_of(project, old, after)
    if not before or not after:
        yield whole._replace(text=f"{whole.text}; the run kept no list of its functions, and its commit cannot tell")
        return
    for file, name in changed_functions(before, after):
        pair = (before.get(file, {}).get(name, ABSENT), after.get(file, {}).get(name, ABSENT))
        one = Difference(CODE, f"{file}:{name}", *pair, f"{name or 'top level'} in {file}")
        commit = commit_of(file, name)
        yield one._replace(text=f"{one.text}: {_verb(one)}{f' ({commit})' if commit else ''}")
