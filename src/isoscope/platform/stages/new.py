"""`isoscope new`: make a project, a git and DVC repository with one task and a first study."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from isoscope.base import built_in, paths
from isoscope.base.errors import InputError
from isoscope.platform.config.across_studies import check_all
from isoscope.platform.config.kinds import json_schema
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.new_project import project_files
from isoscope.platform.runs.provenance import ELSEWHERE

_FIRST_COMMIT = "git add --all && git commit -m 'A new project'"
LARGE = 10_000_000
"""Bytes; git does not get a larger file of text."""


class Made(NamedTuple):
    """A new project: its folder and task, what git did not do and why (empty: it has all files in a commit), and
    whether it has a search.
    """

    folder: Path
    task: str
    notes: list[str]
    searches: bool


def new(folder: Path, *, profile: str | None = None, **text: Any) -> Made:
    """Make a project in `folder`, which must be new or empty, with a user's text or generated text.

    `text`: the options of the text, which the science declares. Raises `InputError`, and then leaves nothing behind.
    """
    name = paths.checked_name("project", folder.resolve().name)
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InputError(f"{folder}: is not a folder; give another name")
    _check_empty(folder)
    task = built_in.load(built_in.GIVEN, "new").task(**text)
    content, notes = project_files(name, task, profile), [*task.notes]
    new_parent = not folder.exists()
    building = folder / ".making"
    try:
        folder.mkdir(parents=True, exist_ok=not new_parent)
        building.mkdir()
    except FileExistsError:  # both are claims: each succeeds for one process only
        raise InputError(f"{folder}: another isoscope new is making it; wait for it, or give another name") from None
    try:
        _check_empty(folder, building)  # another process may have made it since
        for path, what in content.items():
            file = building / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(what, Path):
                shutil.copyfile(what, file)
            else:
                file.write_text(what, "utf-8")
        (building / "params.schema.json").write_text(
            json.dumps(json_schema(), indent=1, sort_keys=True) + "\n", "utf-8"
        )
        for path, file in task.files.items():
            (building / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, building / path)
            notes += _leave_out(building, path)
        check_all(configuration := Configuration(building))
        notes += commit(building, f"isoscope new {name}")
        for made in [*building.iterdir()]:
            made.rename(folder / made.name)
        building.rmdir()
    except BaseException:
        shutil.rmtree(folder if new_parent else building, ignore_errors=True)
        raise
    return Made(folder, task.name, notes, configuration.root.search is not None)


def _check_empty(folder: Path, besides: Path | None = None) -> None:
    if folder.is_dir() and (held := sorted(path.name for path in folder.iterdir() if path != besides)):
        raise InputError(f"{folder}: holds {', '.join(held[:3])}{' …' * (len(held) > 3)}; give a new or empty folder")


def _leave_out(project: Path, path: str) -> list[str]:
    """Let git ignore a large file of text, and say so."""
    if (size := (project / path).stat().st_size) <= LARGE:
        return []
    with (project / ".gitignore").open("a", encoding="utf-8") as ignored:
        ignored.write("\n# Too large for git\n/" + re.sub(r"([^\w./-])", r"\\\1", path) + "\n")
    return [f"{path} is not in git ({size / 1e6:.0f} MB); to share it by DVC: dvc add '{path}'"]


def commit(project: Path, message: str) -> list[str]:
    """Make a git repository with one commit; without a name and address of the author, without the commit.

    Returns what was not done, and why.
    """
    if shutil.which("git") is None:
        raise InputError("git: not found; install it, because DVC needs it")
    _git(project, "init", "--quiet")
    if _git(project, "-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT", may_fail=True) is not None:
        return ["git has no user.name and user.email, so nothing is committed; set them, then: " + _FIRST_COMMIT]
    _git(project, "add", "--all")
    if fault := _git(project, "commit", "--quiet", "--message", message, may_fail=True):
        return [f"git commit failed ({fault}); commit yourself: {_FIRST_COMMIT}"]
    return []


def _git(folder: Path, *words: str, may_fail: bool = False) -> str | None:
    """Run git; return None, or the first line of what it says if it fails."""
    env = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    done = subprocess.run(("git", *words), cwd=folder, env=env, capture_output=True, text=True, check=False)
    if not done.returncode:
        return None
    fault = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[0]
    if may_fail:
        return fault
    raise InputError(f"git {words[0]}: {fault}")
