"""The commit that changed a function, in a history with branches."""

import subprocess
from itertools import count
from pathlib import Path

import pytest

from isoscope.platform.runs import code_changes

FILE = "module.py"
SECONDS = count(1_700_000_000)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that holds the package."""
    monkeypatch.setattr(code_changes, "PACKAGE", tmp_path)
    code_changes.commit_of.cache_clear()
    code_changes._at.cache_clear()
    git(tmp_path, "init", "-q", "-b", "main")
    return tmp_path


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    date = f"{next(SECONDS)} +0000"
    environment = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, env=environment)


def written(folder: Path, one: int, other: int, subject: str) -> None:
    """Commit a module whose functions return these numbers."""
    gap = "\n" * 8  # apart, so that branches that change one each have no conflict
    (folder / FILE).write_text(f"def one():\n    return {one}\n{gap}def other():\n    return {other}\n", "utf-8")
    git(folder, "add", FILE)
    git(folder, "commit", "-q", "-m", subject)


def subjects(*names: str) -> list[str | None]:
    found = (code_changes.commit_of(FILE, name) for name in names)
    return [said and said.split(" ", 1)[-1] for said in found]


def test_the_last_commit_that_changed_a_function_is_named(folder: Path) -> None:
    written(folder, 1, 1, "first")
    written(folder, 2, 1, "one is 2")
    written(folder, 2, 5, "other is 5")
    written(folder, 1, 5, "one is 1 again")
    assert subjects("one", "other") == ["one is 1 again", "other is 5"]
    (folder / FILE).write_text("def one():\n    return 9\n", "utf-8")
    code_changes.commit_of.cache_clear()
    assert subjects("one") == ["committed"]


@pytest.mark.parametrize("main_first", [True, False])
def test_of_branches_it_is_the_commit_and_neither_the_merge_nor_that_of_the_other_branch(
    folder: Path, main_first: bool
) -> None:
    written(folder, 1, 1, "first")
    git(folder, "branch", "side")
    steps = [("main", (1, 3), "other is 3"), ("side", (2, 1), "one is 2")]
    for branch, values, subject in steps if main_first else steps[::-1]:
        git(folder, "checkout", "-q", branch)
        written(folder, *values, subject)
    git(folder, "checkout", "-q", "main")
    git(folder, "merge", "-q", "--no-ff", "-m", "merged", "side")
    assert subjects("one", "other") == ["one is 2", "other is 3"]


def test_what_only_a_merge_made_is_of_the_merge(folder: Path) -> None:
    written(folder, 1, 1, "first")
    git(folder, "branch", "side")
    written(folder, 2, 1, "one is 2")
    git(folder, "checkout", "-q", "side")
    written(folder, 1, 3, "other is 3")
    git(folder, "merge", "-q", "--no-ff", "--no-commit", "main")
    written(folder, 7, 3, "merged")
    assert subjects("one", "other") == ["merged", "other is 3"]
