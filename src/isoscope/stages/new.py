"""`isoscope new`: make a project, a git and DVC repository with one task and a first study."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from isoscope import paths
from isoscope.config.kinds import json_schema
from isoscope.config.load import Configuration
from isoscope.config.new_project import GENERATED, OwnTask, project_files
from isoscope.config.tree import Tree
from isoscope.data import embedded, files
from isoscope.data.corpus import build, shown_columns
from isoscope.data.scripts import has_vowel_signs
from isoscope.errors import InputError
from isoscope.runs.provenance import ELSEWHERE

HELD_OUT, MOST_HELD_OUT = 0.15, 2000
"""Share and maximum rows of the validation split, and of the test split."""
_FIRST_COMMIT = "git add --all && git commit -m 'A new project'"
LARGE = 10_000_000
"""Bytes; git does not get a larger file of text."""


class Made(NamedTuple):
    """A new project: its folder and task, and what git did not do and why (empty: it has all files in a commit)."""

    folder: Path
    task: str
    notes: list[str]


def new(folder: Path, text: Path | None, *, column: str, label: str | None, profile: str | None) -> Made:
    """Make a project in `folder`, which must be new or empty, with the text of a file or generated text.

    `column`, `label`: columns of text and classes; without `label` the first study trains masked language models.
    Raises `InputError`, and then leaves nothing behind.
    """
    name = paths.checked_name("project", folder.resolve().name)
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InputError(f"{folder}: is not a folder; give another name")
    _check_empty(folder)
    if shutil.which("git") is None:
        raise InputError("git: not found; install it, because DVC needs it")
    task, notes = (_generated(), []) if text is None else _local(text, column, label)
    content = project_files(name, task, profile)
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
        if text is not None:
            shutil.copyfile(text, building / "texts" / text.name)
            notes += _leave_out(building, text)
        Configuration(building).check()
        notes += _commit(building, name)
        for made in [*building.iterdir()]:
            made.rename(folder / made.name)
        building.rmdir()
    except BaseException:
        shutil.rmtree(folder if new_parent else building, ignore_errors=True)
        raise
    return Made(folder, task.name, notes)


def _check_empty(folder: Path, besides: Path | None = None) -> None:
    if folder.is_dir() and (held := sorted(path.name for path in folder.iterdir() if path != besides)):
        raise InputError(f"{folder}: holds {', '.join(held[:3])}{' …' * (len(held) > 3)}; give a new or empty folder")


def _generated() -> OwnTask:
    source = {"kind": "embedded", "generator": "sentiment", "size": GENERATED, "difficulty": 2, "seed": 0}
    rows = round(GENERATED * (1 - 2 * embedded.HELD_OUT))
    return OwnTask("sentiment", {"source": source}, "generated sentences", "sentiment", rows, trees=True)


def _local(text: Path, column: str, label: str | None) -> tuple[OwnTask, list[str]]:
    """Return the task of a file, after reading it as the stage `prepare` does, and notes about its labels."""
    if text.is_dir():
        raise InputError(
            f"--from {text}: is a folder; give one file, or describe a folder of splits in variants/task "
            "(see: isoscope docs studies)"
        )
    if not text.is_file():
        raise InputError(f"--from {text}: no such file")
    columns = {"sentence": column} | ({"label": label} if label is not None else {})
    splits = {"train": "train", "validation": None, "test": None}
    raw = files.read_splits(text, columns=columns, splits=splits)
    _check_columns(text, raw["train"].table.column_names, {"--column": column, "--label": label})
    rows = max(raw["train"].table.num_rows, 1)
    held_out = HELD_OUT if rows * HELD_OUT <= MOST_HELD_OUT else float(f"{MOST_HELD_OUT / rows:.2g}")
    source: Tree = {"kind": "local", "path": f"texts/{text.name}", "columns": columns, "splits": splits}
    source |= {"held_out": held_out, "seed": 0, "licence": "unknown"}
    corpus = build(raw, columns=columns, held_out=held_out, seed=0, source=str(text), licence="unknown")
    name = re.sub(r"[^A-Za-z0-9_.]+", "_", text.stem).strip("_.") or "text"
    train, notes = corpus.splits["train"], [*corpus.notes]
    if marked := has_vowel_signs(train["sentence"].to_pylist()):
        notes.append("data.tokenizer.lowercase is false: in lower case WordPiece would remove the text's vowel signs")
    about = f"the column {column} of {text.name}"
    return OwnTask(name, {"source": source}, about, label, train.num_rows, marked=marked), notes


def _check_columns(text: Path, found: list[str], asked: dict[str, str | None]) -> None:
    """Raise `InputError`, naming the option, for a column that a file lacks."""
    for option, name in asked.items():
        if name is not None and name not in found:
            where = "its first line has" if text.suffix in (".csv", ".tsv") else "there are"
            raise InputError(f"{text}: no column {name!r}; {where}: {shown_columns(found)}; name it with {option}")


def _leave_out(project: Path, text: Path) -> list[str]:
    """Let git ignore a large file of text, and say so."""
    if text.stat().st_size <= LARGE:
        return []
    with (project / ".gitignore").open("a", encoding="utf-8") as ignored:
        ignored.write("\n# Too large for git\n/texts/" + re.sub(r"([^\w./-])", r"\\\1", text.name) + "\n")
    size = f"{text.stat().st_size / 1e6:.0f} MB"
    return [f"texts/{text.name} is not in git ({size}); to share it by DVC: dvc add 'texts/{text.name}'"]


def _commit(project: Path, name: str) -> list[str]:
    """Make a git repository with one commit; without a name and address of the author, without the commit.

    Returns what was not done, and why.
    """
    _git(project, "init", "--quiet")
    if _git(project, "-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT", may_fail=True) is not None:
        return ["git has no user.name and user.email, so nothing is committed; set them, then: " + _FIRST_COMMIT]
    _git(project, "add", "--all")
    if fault := _git(project, "commit", "--quiet", "--message", f"isoscope new {name}", may_fail=True):
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
