"""Two identities differ in exactly what was changed in one of them."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.base.code_closure import functions, stripped
from isoscope.base.paths import Project
from isoscope.platform.runs.differences import differences
from isoscope.platform.runs.lines import PLUGIN, Run
from isoscope.platform.runs.provenance import dvc_md5, file_md5s

DATA = "data/processed/words"
ROWS = [{"text": f"row {number}", "label": number % 2} for number in range(6)]
OLD = Run(
    1,
    "0" * 64,
    "train",
    params={"training.learning_rate": 0.1, "training.device": "cpu"},
    inputs={"models/base/mlm/seed-0": "a" * 64},
    code="c" * 64,
    tags={f"{PLUGIN}mine.py": "1" * 64},
)
MODULE = """
class A(Base):
    limit = 3
    def first(self): return 1
    def second(self):
        def inner(): return 2
        return inner()
def alone(): return 3
X = 1
"""


@pytest.mark.parametrize(
    "change, kind, text",
    [
        ({"params": {**OLD.params, "training.learning_rate": 0.2}}, "parameter", "training.learning_rate 0.1 → 0.2"),
        ({"params": {**OLD.params, "more": None}}, "parameter", "more absent → null"),
        ({"tags": {f"{PLUGIN}mine.py": "2" * 64}}, "plug-in", "mine.py: changed"),
        ({"tags": {}}, "plug-in", "mine.py: removed"),
        ({"inputs": {"models/base/mlm/seed-0": "b" * 64}}, "input", "models/base/mlm/seed-0: changed"),
        ({"inputs": {**OLD.inputs, DATA: "0" * 32 + ".dir"}}, "data", f"{DATA}: added"),
        ({"code": "d" * 64}, "code", "the code: changed; the run kept no list"),
    ],
)
def test_one_change_is_one_difference(tmp_path: Path, change: dict, kind: str, text: str) -> None:
    (found,) = differences(Project(tmp_path, tmp_path), OLD, OLD._replace(**change))
    assert (found.kind, found.text[: len(text)]) == (kind, text)


def test_equal_runs_and_settings_outside_the_digest_do_not_differ(tmp_path: Path) -> None:
    other = OLD._replace(digest="1" * 64, t=2, params={**OLD.params, "training.device": "cuda"})
    assert differences(Project(tmp_path, tmp_path), OLD, other) == []


def prepared(folder: Path, rows: list[dict], **texts: str) -> str:
    """Write a prepared task, and a copy as DVC's cache has it; return its hash."""
    shutil.rmtree(folder / DATA, ignore_errors=True)
    (folder / DATA).mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / DATA / "train.parquet")
    for name, text in {"settings": "{}", **texts}.items():
        (folder / DATA / f"{name}.json").write_text(text)
    found = file_md5s(folder / DATA)
    md5, cache = dvc_md5(folder / DATA), folder / ".dvc/cache/files/md5"
    for name, of_file in found.items():
        (cache / of_file[:2]).mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / DATA / name, cache / of_file[:2] / of_file[2:])
    listing = "[" + ", ".join(f'{{"md5": "{found[name]}", "relpath": "{name}"}}' for name in sorted(found)) + "]"
    (cache / md5[:2]).mkdir(parents=True, exist_ok=True)
    (cache / md5[:2] / md5[2:]).write_text(listing)
    return md5


CHANGED = [*ROWS[:2], {"text": "row 2", "label": 1}, *ROWS[3:]]


@pytest.mark.parametrize(
    "rows, said",
    [
        (CHANGED, '1 row changed, such as {"text": "row 2", "label": 0} → {"text": "row 2", "label": 1}'),
        ([*ROWS, {"text": "new", "label": 0}], '1 row added, such as {"text": "new", "label": 0}'),
        (ROWS[1:], '1 row removed, such as {"text": "row 0", "label": 0}'),
        ([*ROWS, ROWS[0]], '1 row added, such as {"text": "row 0", "label": 0}'),
        (ROWS[::-1], "the same rows in another order"),
        ([*CHANGED[:4], {"text": "x", "label": 0}], "2 rows added, 3 rows removed"),
    ],
)
def test_rows_that_were_changed_added_and_removed_are_counted(tmp_path: Path, rows: list[dict], said: str) -> None:
    project = Project(tmp_path, tmp_path)
    (tmp_path / ".dvc").mkdir()
    old = OLD._replace(inputs={DATA: prepared(tmp_path, ROWS)})
    new = OLD._replace(inputs={DATA: prepared(tmp_path, rows, settings='{"other": 1}')})
    (found,) = differences(project, old, new)
    assert found.text.startswith(f"{DATA}/train.parquet: {said}")
    (back,) = differences(project, new, old)
    assert (back.old, back.new) == (found.new, found.old)


def test_settings_with_equal_files_are_no_difference(tmp_path: Path) -> None:
    (tmp_path / ".dvc").mkdir()
    old = OLD._replace(inputs={DATA: prepared(tmp_path, ROWS)})
    new = OLD._replace(inputs={DATA: prepared(tmp_path, ROWS, settings='{"other": 1}')})
    assert old.inputs != new.inputs
    assert differences(Project(tmp_path, tmp_path), old, new) == []


@pytest.mark.parametrize(
    "old, new, names",
    [
        ("return 1", "return 4", {"A.first"}),
        ("return 2", "return 4", {"A.second"}),
        ("return 3", "return 4", {"alone"}),
        ("limit = 3", "limit = 4", {"A"}),
        ("A(Base)", "A(Other)", {"A"}),
        ("X = 1", "X = 2", {""}),
        ("def alone", "# a comment\ndef alone", set()),
        ("def alone(): return 3", 'def alone():\n    """Say."""\n    return 3', set()),
    ],
)
def test_a_change_of_a_module_is_in_one_function(old: str, new: str, names: set[str]) -> None:
    before, after = functions(stripped(MODULE)), functions(stripped(MODULE.replace(old, new)))
    assert before.keys() == {"", "A", "A.first", "A.second", "alone"}
    assert {name for name in before if before[name] != after[name]} == names
