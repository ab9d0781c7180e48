"""Where a project's state lies."""

from pathlib import Path

import pytest

from isoscope.base.errors import InputError
from isoscope.base.paths import find_project


@pytest.mark.parametrize(
    "root, project, state",
    [
        (None, "a", "a"),
        ("", "a", "a"),
        ("a", "a", "a"),
        ("a", "a/.dvc/tmp/exps/standalone/tmp1", "a"),  # dvc exp run --temp
        ("a", "a/.dvc/tmp/exps/tmp2", "a"),  # dvc exp run --queue
        ("a", "a/projects/one", "a/projects/one"),  # in a larger DVC repository
    ],
)
def test_an_experiments_copy_uses_the_state_of_its_project(
    root: str | None, project: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / project)
    if root is not None:
        monkeypatch.setenv("DVC_ROOT", str(tmp_path / root) if root else "")
    assert find_project(tmp_path / project).state == tmp_path / state


@pytest.mark.parametrize("root", ["b", "a/models", ".dvc/tmp", "nowhere"])
def test_another_projects_root_is_refused(root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path / "a")
    monkeypatch.setenv("DVC_ROOT", str(tmp_path / root))
    with pytest.raises(InputError) as caught:
        find_project(tmp_path / "a")
    expected = f"DVC_ROOT={tmp_path / root} in the environment is not the project {tmp_path / 'a'}; run: unset DVC_ROOT"
    assert str(caught.value) == expected


def made(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in ("params.yaml", "dvc.yaml"):
        (folder / name).touch()
