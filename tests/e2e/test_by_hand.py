"""One run by hand: the pipeline's run, stopped, killed and resumed; no other process can take it meanwhile.

The tests of this file are one story, told in order.
"""

import contextlib
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from isoscope.platform.runs.lines import RunRecord
from isoscope.platform.runs.machine_load import PREFIX
from isoscope.platform.runs.provenance import file_md5s
from pipeline_project import Finished, Project, wait_for, written

ADDITIVE = ("train", "fusion", "additive", "--seed", "0")
LONG = ("train", "fusion", "conv2d", "--seed", "0", "-S", "training.epochs=60")


@pytest.fixture(scope="module")
def project(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The data are prepared, nothing is trained."""
    folder = tmp_path_factory.mktemp("by-hand") / "project"
    return finished.project.copy(folder, without=(".isoscope", "models"))


@pytest.fixture(scope="module")
def elsewhere(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Another such place, where the long run is never disturbed."""
    folder = tmp_path_factory.mktemp("elsewhere") / "project"
    return finished.project.copy(folder, without=(".isoscope", "models"))


@contextlib.contextmanager
def running(project: Project, *words: str) -> Iterator[subprocess.Popen[str]]:
    process = project.start(*words)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def long_run(project: Project) -> RunRecord:
    """The record of the run of 60 epochs."""
    found = [one for one in project.records().values() if one.run and one.run.params["training.epochs"] == 60]
    return found[0] if found else RunRecord()


def epochs(project: Project) -> int:
    """Epochs that the long run has closed."""
    return max((point.epoch or 0 for point in long_run(project).metrics), default=0)


def stored(project: Project) -> Path:
    run = long_run(project).run
    return project.folder / ".isoscope" / "runs" / run.digest / "output"


def test_by_hand_is_the_pipelines_own_run_to_the_byte(project: Project, finished: Finished) -> None:
    project.isoscope(*ADDITIVE)
    assert project.digest("additive") == finished.project.digest("additive")
    assert file_md5s(project.output("additive")) == file_md5s(finished.project.output("additive"))
    assert project.git("status", "--porcelain") == ""


def test_a_run_under_way_is_nobody_elses(project: Project) -> None:
    with running(project, *LONG) as holder:
        wait_for(lambda: epochs(project) >= 2)
        holder.send_signal(signal.SIGSTOP)
        refused = project.isoscope(*LONG, code=2)
        (line,) = refused.err.splitlines()
        assert "already in progress" in line
        assert f"process {holder.pid} " in line
        holder.send_signal(signal.SIGCONT)
        holder.send_signal(signal.SIGTERM)
        _, err = holder.communicate(timeout=600)
    assert holder.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("isoscope: conv2d seed 0: stopped at step ")
    assert err.splitlines()[-1].endswith("; run the same command to resume")
    record = long_run(project)
    assert (record.status, len(record.attempts)) == ("KILLED", 1)
    project.isoscope("mirror")
    assert project.tracked()[record.run.digest].status == "KILLED"


def test_it_goes_on_after_a_kill_and_is_bitwise_the_run_that_never_stopped(
    project: Project, elsewhere: Project
) -> None:
    stopped_at = epochs(project)
    with running(project, *LONG) as second:
        wait_for(lambda: epochs(project) >= stopped_at + 3)
        second.kill()
    killed_at = epochs(project)
    assert killed_at < 60, "killed within the run"
    assert (long_run(project).status, len(long_run(project).attempts)) == ("RUNNING", 2)
    third = project.isoscope(*LONG)
    went_on = re.search(r"resuming from step (\d+)/480$", third.err, re.MULTILINE)
    assert int(went_on[1]) >= 8 * (killed_at - 1)
    assert (long_run(project).status, len(long_run(project).attempts)) == ("FINISHED", 3)
    elsewhere.isoscope(*LONG)
    assert len(long_run(elsewhere).attempts) == 1
    assert stored(project).parent.name == stored(elsewhere).parent.name
    assert file_md5s(stored(project)) == file_md5s(stored(elsewhere))


def test_mlflow_shows_the_interrupted_run_as_one(project: Project, elsewhere: Project) -> None:
    project.isoscope("mirror")
    run = long_run(project).run
    shown = project.tracked()[run.digest]
    assert shown.status == "FINISHED"
    assert shown.tags["isoscope.attempts"] == "3"
    wall_clock = {name for name in shown.points if name.startswith(("speed/", PREFIX))}  # the latter if it took long
    assert {name: shown.points[name] for name in shown.points.keys() - wall_clock} == written(stored(elsewhere))


def test_settings_of_ones_own_leave_the_pipelines_place_alone(project: Project) -> None:
    assert not project.output("conv2d").exists()
    assert project.git("status", "--porcelain") == ""
