"""Which functions differ between two versions of the code, and the commits that changed them."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from isoscope.base.atomic_files import write_text
from isoscope.base.code_closure import PACKAGE, functions, stripped
from isoscope.base.paths import Project
from isoscope.platform.runs.identity import Identity
from isoscope.platform.runs.lines import Run
from isoscope.platform.runs.provenance import run_git
from isoscope.platform.runs.record import read

Functions = Mapping[str, Mapping[str, str]]
"""File of the package → function → hash of its code (`isoscope.base.code_closure.code_of`)."""
MOST = 200
"""Commits of a file to look through."""


def keep_functions(project: Project, one: Identity) -> None:
    """Keep the functions of a code version beside the records, once."""
    if not (file := _file(project, one.code)).is_file():
        write_text(file, json.dumps(one.functions, sort_keys=True) + "\n", "note", shared=True)


def functions_of(project: Project, run: Run, files: Iterable[str]) -> Functions:
    """Return the functions of a run's code: as they were kept, else those of `files` in the run's commit.

    Empty if neither is known, or if the sources had changed since the commit.
    """
    try:
        found: Functions = json.loads(_file(project, str(run.code)).read_text("utf-8"))
        return found
    except (OSError, ValueError):
        file = project.records / f"{run.digest}.jsonl"
    author = read(file).author if file.is_file() else None
    commit = author.git.get("commit") if author and not author.git.get("dirty") else None
    known = {one: _at(commit, PACKAGE / one) for one in files if commit}
    return {one: names for one, names in known.items() if names}


def _file(project: Project, code: str) -> Path:
    return project.records / "code" / f"{code}.json"


def changed_functions(old: Functions, new: Functions) -> list[tuple[str, str]]:
    """Return (file, function) of each function that was added, removed or changed."""
    return [
        (file, name)
        for file in sorted(old.keys() | new.keys())
        for name in sorted(old.get(file, {}).keys() | new.get(file, {}).keys())
        if old.get(file, {}).get(name) != new.get(file, {}).get(name)
    ]


@cache
def commit_of(file: str, name: str) -> str | None:
    """Return short hash and subject of the last commit that changed a function of the installed sources.

    "not committed" if the file differs from the newest commit there; None if the sources are in no repository.
    """
    path = PACKAGE / file
    try:
        log = run_git(PACKAGE, "log", f"-n{MOST}", "--parents", "--format=%p%x09%h %s", "--", str(path)).splitlines()
    except (OSError, subprocess.SubprocessError):
        return None
    now = _in(path, path.read_text("utf-8")).get(name) if path.is_file() else None
    commits = [(parents.split(), said) for parents, said in (line.split("\t", 1) for line in log)]

    def same(commit: str) -> bool:
        return _at(commit, path).get(name) == now

    if commits and not same(commits[0][1].split()[0]):
        return "not committed"
    # A merge mostly has the function as one of its parents has it: the commit that made it so is before that parent.
    made = (said for parents, said in commits if same(said.split()[0]) and not any(map(same, parents)))
    return next(made, None)


@cache
def _at(commit: str, path: Path) -> Mapping[str, str]:
    """Return the functions of a file of the package in a commit; empty if it is not there."""
    try:
        text = run_git(PACKAGE, "show", f"{commit}:./{path.relative_to(PACKAGE).as_posix()}")
        return _in(path, text)
    except (OSError, subprocess.SubprocessError, SyntaxError):
        return {}


def _in(path: Path, text: str) -> Mapping[str, str]:
    """Return the functions of a module; of another file, one hash."""
    return functions(stripped(text) if path.suffix == ".py" else repr(text))
