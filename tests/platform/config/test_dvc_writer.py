"""`dvc exp run -S` reads and writes a whole file: the files have the form in which this changes one value only."""

import difflib
from collections.abc import Iterator
from pathlib import Path

import pytest
from dvc.utils.hydra import apply_overrides

from isoscope.data.new_task import NewTask
from isoscope.platform.config.new_project import project_files
from isoscope.platform.config.profiles import laid_over
from isoscope.platform.config.tree import flatten, parse_yaml, read_yaml

ROOT = Path(__file__).parents[3]
PARAMS = (ROOT / "params.yaml").read_text("utf-8")
TASKS = (
    NewTask("mine", {"kind": "table", "path": "texts/mine.csv"}, "mine.csv", "stars", 1000),
    NewTask("mine", {"kind": "lines", "path": "texts/mine.txt"}, "mine.txt", None, 100),
)


def written(text: str, folder: Path, *overrides: str) -> str:
    """A file after DVC has applied `-S` to it."""
    path = folder / "params.yaml"
    path.write_text(text, "utf-8")
    apply_overrides(path, list(overrides))
    return path.read_text("utf-8")


def targets() -> Iterator[tuple[str, str]]:
    """What `-S` may write: params.yaml, also under a profile, overlays, and the files of new projects."""
    for path in (ROOT / "params.yaml", *sorted((ROOT / "variants").glob("*/*.yaml"))):
        yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
    for path in sorted((ROOT / "profiles").rglob("*.yaml")):
        yield f"under {path.stem}", laid_over(PARAMS, read_yaml(ROOT, path.relative_to(ROOT)))


def test_dvc_writes_each_file_as_it_is(tmp_path: Path) -> None:
    changed = [name for name, text in targets() if written(text, tmp_path) != text]
    assert not changed, "rewrite with: isoscope.platform.config.profiles.as_dvc_writes"


@pytest.mark.parametrize("task", TASKS, ids=["labelled", "language"])
def test_dvc_writes_the_files_of_a_new_project_as_they_are(tmp_path: Path, task: NewTask) -> None:
    files = {
        name: text if isinstance(text, str) else text.read_text("utf-8")
        for name, text in project_files("mine", task, None).items()
        if name == "params.yaml" or name.startswith("variants/")
    }
    assert len(files) > 10
    assert not [name for name, text in files.items() if written(text, tmp_path) != text]
    profiles = [text for name, text in project_files("mine", task, None).items() if name.startswith("profiles/")]
    for profile in map(str, profiles):
        text = laid_over(str(files["params.yaml"]), parse_yaml(profile, "profile"))
        assert written(text, tmp_path) == text


def test_one_number_is_one_line(tmp_path: Path) -> None:
    """Of each kind of value, at each depth: numbers, texts, truth values, nulls and lists."""
    values = flatten(parse_yaml(PARAMS, "params.yaml"))
    for name, value in values.items():
        new = {int: 3, float: 0.125, bool: False, str: "other", type(None): 7}.get(type(value))
        if name.startswith(("search.", "comparisons")) or new in (None, value) or ".about" in name:
            continue  # names with dots, and texts of several lines
        lines = difflib.unified_diff(
            PARAMS.splitlines(), written(PARAMS, tmp_path, f"{name}={new}").splitlines(), n=0, lineterm=""
        )
        assert [line[0] for line in lines][2:] == ["@", "-", "+"], name
