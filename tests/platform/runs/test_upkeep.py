"""Stale DVC locks of dead processes are removed, and no others."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from isoscope.platform.runs.upkeep import RWLOCK, free_dvc


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / RWLOCK
    path.parent.mkdir(parents=True)
    return path


def held_by(path: Path, *pids: int) -> None:
    readers = [{"pid": pid, "cmd": "dvc repro"} for pid in pids[1:]]
    path.write_text(json.dumps({"read": {"data": readers}, "write": {"models": {"pid": pids[0], "cmd": "dvc repro"}}}))


def test_a_zombie_holds_nothing(lock: Path, tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass", "dvc"])
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    held_by(lock, process.pid)
    free_dvc(tmp_path)
    assert not lock.exists()
    process.wait()


@pytest.mark.parametrize("words", [("dvc", "repro"), ()], ids=["dvc", "another with the number"])
def test_a_living_dvc_alone_keeps_its_lock(lock: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    code = "import time; print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE) as process:
        process.stdout.readline()  # from here on its command line is its own
        held_by(lock, 2**22 + 1, process.pid)
        before = lock.read_text()
        free_dvc(tmp_path)
        assert (lock.exists() and lock.read_text() == before) == bool(words)
        process.kill()


@pytest.mark.parametrize(
    "text, stays",
    [("", 0), ('{"read": {', 0), ("[]", 0), ('{"write": {"a": {"pid": "x"}}}', 0), ('{"read": {}, "write": {}}', 1)],
)
def test_a_file_cut_short_is_removed_and_an_empty_lock_left_alone(
    lock: Path, tmp_path: Path, text: str, stays: int
) -> None:
    lock.write_text(text)
    free_dvc(tmp_path)
    assert [path.name for path in lock.parent.iterdir()] == ["rwlock"] * stays
