"""`isoscope gc` removes files that DVC holds and abandoned work, and nothing that a command still needs."""

import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from isoscope.base import paths
from isoscope.platform.runs.locks import Lease
from isoscope.platform.runs.upkeep import clear, size_of
from pipeline_project import ARMS, Finished, Project, wait_for

MONTHS = 60 * 86400


@pytest.fixture
def project(finished: Finished, tmp_path: Path) -> Project:
    return finished.project.copy(tmp_path / "project", mirrored=False)


def stored(project: Project, arm: str) -> Path:
    return project.folder / ".isoscope/runs" / project.digest(arm) / "output"


def cached_weights(project: Project) -> Path:
    """The weights of the additive run in DVC's cache."""
    md5 = project.lock()["train@fusion"]["outs"][0]["md5"]
    objects = project.folder / ".dvc/cache/files/md5"
    listing = json.loads((objects / md5[:2] / md5[2:]).read_text())
    names = {entry["relpath"]: entry["md5"] for entry in listing}
    weights = next(names[name] for name in names if re.fullmatch(r"additive/.*model\.safetensors", name))
    return objects / weights[:2] / weights[2:]


def aged(folder: Path) -> None:
    """Let a folder look untouched for two months."""
    then = time.time() - MONTHS
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (then, then))


def test_what_dvc_holds_goes_and_the_pipeline_needs_nothing(project: Project) -> None:
    records = project.records().keys()
    shown = project.isoscope("gc", "--dry-run").out.splitlines()
    assert [line.split(":")[0] for line in shown[:-1]] == ["would be removed"] * len(ARMS)
    assert re.fullmatch(r"[\d.]+ MB would be removed; \.isoscope would then hold [\d.]+ MB", shown[-1])
    dry = json.loads(project.isoscope("gc", "--dry-run", "--json").out)
    assert all(stored(project, arm).is_dir() for arm in ARMS)
    done = json.loads(project.isoscope("gc", "--json").out)
    assert sorted(done["removed"]) == sorted(dry["removed"])
    assert done["kept_bytes"] == dry["kept_bytes"]
    assert done["bytes"] > 0
    assert not any(stored(project, arm).exists() for arm in ARMS)
    assert project.records().keys() == records
    assert project.isoscope("repro").ran == []
    before, digest = project.records(), project.digest("additive")
    shutil.rmtree(project.folder / "models")
    assert project.isoscope("repro").ran == []
    shutil.rmtree(project.folder / "models")  # a stage that runs again for another reason finds what DVC holds
    assert "found finished, nothing trained" in project.isoscope("train", "fusion", "additive", "--seed", "0").err
    after = project.records()
    assert (after.keys(), after[digest].end.t) == (records, before[digest].end.t), "nobody has worked since"


@pytest.mark.parametrize("lost", ["cache", "lock"])
def test_what_dvc_does_not_hold_stays(project: Project, lost: str) -> None:
    if lost == "cache":
        cached_weights(project).unlink()
    else:
        (project.folder / "dvc.lock").unlink()
    project.isoscope("gc")
    assert stored(project, "additive").is_dir()
    assert stored(project, "conv2d").exists() == (lost == "lock")


def test_unfinished_work_goes_when_it_is_old_and_nobody_owns_it(project: Project) -> None:
    words = ("train", "fusion", "conv2d", "--seed", "0", "-S", "training.epochs=200")
    process = project.start(*words)
    try:
        runs = project.folder / ".isoscope/runs"
        wait_for(lambda: list(runs.glob("*/states/step-*")))
        (folder,) = [path.parent for path in runs.glob("*/states")]
        process.send_signal(signal.SIGSTOP)  # alive, and nothing of it goes while it is made to look old
        aged(folder / "states")
        aged(folder / "work")
        # It belongs to a living process, however old it looks.
        project.isoscope("gc", "--idle-days", "0")
        assert (folder / "states").is_dir()
    finally:
        process.kill()
        process.communicate()
    os.utime(folder / "states")
    project.isoscope("gc")
    assert (folder / "states").is_dir()
    aged(folder / "states")
    aged(folder / "work")
    done = project.isoscope("gc")
    assert "unchanged for 60 days" in done.out
    assert not (folder / "states").exists()
    assert not (folder / "work").exists()


def test_what_goes_while_it_is_measured_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A living training drops its older states at any moment."""
    for name in ("step-1", "step-2"):
        (tmp_path / "states" / name).mkdir(parents=True)
        (tmp_path / "states" / name / "weights").write_bytes(b"8 bytes.")
    assert size_of(tmp_path) == 16
    scandir = os.scandir

    def late(path: object) -> object:
        if Path(str(path)).name == "step-1":
            shutil.rmtree(str(path))
        return scandir(str(path))

    monkeypatch.setattr(os, "scandir", late)
    assert size_of(tmp_path) == 8


def test_leftovers_and_unnamed_diffs_go_and_a_held_run_is_passed_over(project: Project) -> None:
    here, cache = paths.Project(project.folder, project.folder), project.folder / ".dvc/cache"
    folder = stored(project, "additive").parent
    with Lease(folder):
        pieces, _ = clear(here, cache=cache, idle_days=0, dry_run=True)
    assert folder / "output" not in {piece.path for piece in pieces}
    assert stored(project, "conv2d") in {piece.path for piece in pieces}
    left = folder / ".output.writing"
    left.mkdir()
    (left / "half").write_text("half", "utf-8")
    diffs = project.folder / ".isoscope/records/diffs"
    diffs.mkdir(exist_ok=True)
    unnamed = diffs / f"{'0' * 64}.patch"
    unnamed.write_text("nobody's", "utf-8")
    project.isoscope("gc")
    assert unnamed.exists(), "it may be of a run that is about to name it"
    aged(diffs)
    project.isoscope("gc")
    assert not left.exists()
    assert not unnamed.exists()
    nothing = paths.Project(project.folder / "docs", project.folder / "docs")  # as in a fresh clone
    assert clear(nothing, cache=cache, idle_days=7) == ([], 0)
