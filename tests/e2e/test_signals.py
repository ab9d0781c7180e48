"""A pipeline that is killed or stopped leaves no process; the same command resumes.

The tests of this file are one story, told in order.
"""

import shutil
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from isoscope.platform.runs.provenance import file_md5s
from isoscope.platform.runs.upkeep import free_dvc
from pipeline_project import BINARIES, Project, family, strike, wait_for, written

STRUCK: list[str] = []
TOPS = {
    # `make run` with the installation at hand, as after the first time.
    "make run": (str(shutil.which("make")), f"BIN={BINARIES}", "-o", ".venv/.project", "run"),
    "isoscope repro": ("isoscope", "repro"),
    "dvc repro": ("dvc", "repro"),
}


COPIED = {"without": (".isoscope", "models")}


def test_a_second_pipeline_is_refused_and_told_by_whom(project: Project) -> None:
    project.edit("params.yaml", "  epochs: 4\n", "  epochs: 40\n")
    first = project.start("repro")
    wait_for(lambda: project.points() > 5)
    everyone = family(first)
    for one in everyone:  # else the second might find it finished, where the machine is slow just then
        one.suspend()
    second = project.isoscope("repro", code=1)
    dvc = next(one for one in everyone if "dvc" in " ".join(one.cmdline()[:2]) and "repro" in one.cmdline())
    assert f"PID {dvc.pid}" in second.err
    for one in everyone:
        with suppress(psutil.NoSuchProcess):  # it had ended before, and its parent has just noticed
            one.resume()
    strike(first, signal.SIGTERM)
    assert {len(record.attempts) for record in project.records().values() if record.metrics} == {1}


@pytest.mark.parametrize("top, number", [
    ("make run", signal.SIGKILL),
    ("isoscope repro", signal.SIGTERM),
    pytest.param("dvc repro", signal.SIGKILL, marks=pytest.mark.exhaustive),
    pytest.param("make run", signal.SIGTERM, marks=pytest.mark.exhaustive),
    pytest.param("isoscope repro", signal.SIGKILL, marks=pytest.mark.exhaustive),
    pytest.param("dvc repro", signal.SIGTERM, marks=pytest.mark.exhaustive),
])  # fmt: skip
def test_nothing_runs_on(project: Project, top: str, number: signal.Signals) -> None:
    seen = project.points()
    words = TOPS[top]
    process = project.start(*words[1:], program=words[0])
    wait_for(lambda: project.points() > seen + 20 or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    assert any("train" in one.cmdline() for one in family(process))
    strike(process, number)
    STRUCK.append(top)
    free_dvc(project.folder)  # as `isoscope repro` does; a bare `dvc repro` treats zombies as alive


def test_after_all_that_the_pipeline_is_as_if_nothing_had_happened(project: Project, tmp_path: Path) -> None:
    project.isoscope("repro")
    gone = (".isoscope", "models", "mlflow.db", "dvc.lock", "reports")
    whole = project.copy(tmp_path / "whole", without=gone, mirrored=False)
    whole.run("rm", "-rf", ".dvc/cache")
    whole.isoscope("repro")
    for arm in ("additive", "conv2d"):
        assert file_md5s(project.output(arm)) == file_md5s(whole.output(arm))
        assert written(project.output(arm)) == written(whole.output(arm))
    records = project.records().values()
    assert {record.status for record in records} == {"FINISHED"}
    assert sum(len(record.attempts) for record in records) >= 3 + len(STRUCK)
    for run in project.tracked().values():
        assert run.status == "FINISHED"
        assert all(len(values) == len(set(values)) for values in run.points.values())


def test_killed_before_dvc_has_written_its_lock_the_repeat_publishes_in_seconds(project: Project) -> None:
    """The run is finished, DVC knows nothing of it: nothing is trained again."""
    before = {digest: len(record.metrics) for digest, record in project.records().items()}
    (project.folder / "dvc.lock").unlink()
    project.run("rm", "-rf", "models", ".dvc/tmp/rwlock", ".dvc/cache/runs")
    done = project.isoscope("repro")
    assert "train@fusion" in done.ran
    assert {digest: len(record.metrics) for digest, record in project.records().items()} == before
    assert "epoch" not in done.err
