"""Cells of a study as jobs of a real Slurm: each done once, equal to local processes, whatever ends."""

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from cells_elsewhere import CELLS, outputs, untrained
from isoscope.base.paths import Project as Here
from isoscope.platform.executor.piece import Piece
from isoscope.platform.executor.slurm import Slurm
from isoscope.platform.runs.record import read
from pipeline_project import Finished, Project, wait_for
from slurm_nodes import SlurmNodes, needs_slurm

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
SLURM = ("--cluster", "slurm")
ONE = ("additive", "--seed", "0", *CELLS)
SEARCH = """\
search:
  name: tiny
  study: fusion
  arm: additive
  settings: []
  seeds: [0]
  space:
    training.learning_rate: {low: 0.01, high: 0.1, log: true}
  objectives: {validation/accuracy: maximise}
  constraints: {}
  at: best
  budget: {trials: 2, hours: null}
  retries: 0
  sampler: {kind: random, seed: 5}
  pruner: {kind: none}
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmNodes]:
    """Two nodes; the last test kills the second."""
    found = SlurmNodes(tmp_path_factory.mktemp("slurm") / "own", 2, 2)
    try:
        yield found
    finally:
        found.remove()


@pytest.fixture(scope="module")
def local(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """The outputs of every cell, trained by local processes."""
    project = copied(finished, tmp_path_factory.mktemp("local"))
    project.isoscope("train", "fusion", *CELLS)
    return outputs(project)


@pytest.fixture
def project(finished: Finished, tmp_path: Path) -> Project:
    return copied(finished, tmp_path)


def copied(finished: Finished, folder: Path) -> Project:
    needs_slurm()
    return untrained(finished, folder)


def attempts(project: Project) -> list[Any]:
    return [one for record in project.records().values() for one in record.attempts]


def status(project: Project, **environment: str) -> list[dict[str, str]]:
    return json.loads(project.isoscope("status", "--json", **environment).out)["runs"]


def held(project: Project) -> dict[str, int]:
    """The runs that a process of this machine trains, by digest, once they have metrics."""
    found = {}
    for path in (project.folder / ".isoscope/runs").glob("*/lease.json"):
        record = project.folder / f".isoscope/records/{path.parent.name}.jsonl"
        if (text := path.read_text()) and record.exists() and read(record).metrics:
            found[path.parent.name] = json.loads(text)["pid"]
    return found


@contextmanager
def paused(project: Project) -> Iterator[tuple[str, int]]:
    """Pause the first run that is under way; yield its digest and its process."""
    wait_for(lambda: held(project))
    digest, pid = next(iter(held(project).items()))
    os.kill(pid, signal.SIGSTOP)
    assert held(project)[digest] == pid
    try:
        yield digest, pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def signalled(pid: int) -> bool:
    """Whether a paused process will get SIGTERM when it continues, or has ended: Slurm itself continues it first."""
    with suppress(FileNotFoundError):
        waiting = re.search(r"^ShdPnd:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.M)
        return bool(waiting and int(waiting[1], 16) & 1 << (signal.SIGTERM - 1))
    return True


def test_bad_options_are_one_line(project: Project, nodes: SlurmNodes) -> None:
    for words, line in (
        (("--slurm", "partition=gpu"), "--slurm: these are options of --cluster slurm; give it, too"),
        (("--detach",), "--detach: only jobs of Slurm continue without this command; give --cluster slurm, too"),
        ((*SLURM, "--slurm", "array=0-3"), "--slurm array: isoscope sets this option of sbatch itself; leave it out"),
        ((*SLURM, "--slurm", "arr=0-3"), "--slurm arr: sbatch has no such option; sbatch --help lists them"),
        ((*SLURM, "--slurm", "time"), "--slurm 'time': expected name=value, such as partition=gpu,time=120"),
        (
            (*SLURM, "--slurm", "partition=x; touch y"),
            "--cluster slurm: sbatch: invalid partition specified: x; touch y; Batch job submission failed: "
            "Invalid partition name specified (exit code 1)",
        ),
    ):
        assert project.refused("train", "fusion", *ONE, *words, **nodes.settings) == f"isoscope: {line}"
    line = "isoscope: --cluster slurm: no sbatch on PATH; run this on a machine of the cluster that submits jobs"
    assert project.refused("train", "fusion", *SLURM, PATH=str(project.binaries)) == line


def test_all_cells_equal_local_ones_two_runs_a_job(
    project: Project, nodes: SlurmNodes, local: dict[str, dict[str, str]]
) -> None:
    done = project.isoscope("train", "fusion", *CELLS, *SLURM, "--gpus-per-run", "0.5", **nodes.settings)
    assert outputs(project) == local
    assert "trained fusion: 4 cells" in done.out
    jobs = [one.job for one in attempts(project)]
    assert sorted(job["id"].partition("_")[2] for job in jobs) == ["0", "0", "1", "1"]
    assert {job["node"] for job in jobs} <= {"n1", "n2"}
    assert all(Path(job["log"]).is_file() for job in jobs)
    assert {one["state"] for one in status(project, **nodes.settings)} == {"done"}

    (setup,) = project.folder.glob(".isoscope/slurm/setup-*.yaml")
    setup.write_text(re.sub("^code: .*", "code: other", setup.read_text(), flags=re.M))
    line = f"isoscope: node {socket.gethostname()}: its isoscope has other code; install the same version on all nodes"
    assert project.refused("train", "fusion", "additive", "--seed", "0", "--setup", str(setup)) == line


def test_a_time_limit_puts_the_job_back_and_it_resumes(
    project: Project, nodes: SlurmNodes, local: dict[str, dict[str, str]]
) -> None:
    process = project.start("train", "fusion", *ONE, *SLURM, "--slurm", "time=1", **nodes.settings)
    with paused(project) as (digest, pid):
        wait_for(lambda: signalled(pid))
    _, text = process.communicate(timeout=600)
    assert process.returncode == 0, text
    assert "waits in the queue again, to resume" in text
    assert "resuming from step" in text
    assert outputs(project) == {digest: local[digest]}
    assert len(attempts(project)) >= 2, "on a slow machine the minute may end several times"


def test_ctrl_c_cancels_what_was_submitted(project: Project, nodes: SlurmNodes) -> None:
    process = project.start("train", "fusion", *CELLS, *SLURM, "--slurm", "exclusive=", **nodes.settings)
    with paused(project) as (digest, pid):
        process.send_signal(signal.SIGINT)
        wait_for(lambda: signalled(pid))
    _, text = process.communicate(timeout=600)
    assert process.returncode == 130, text
    assert re.search("train fusion: stopped with . of 4 done; run the same command to resume", text)
    records = {one: record.status for one, record in project.records().items() if record.attempts}
    assert records[digest] == "KILLED"
    assert set(records.values()) <= {"KILLED", "FINISHED"}
    wait_for(lambda: nodes.run("squeue", "--me", "--noheader") == "")


def test_detached_jobs_are_listed_and_followed_and_cancelled_by_scancel(
    project: Project, nodes: SlurmNodes, local: dict[str, dict[str, str]]
) -> None:
    done = project.cold.isoscope("train", "fusion", *ONE, *SLURM, "--detach", "--json", **nodes.settings)
    (line,) = json.loads(done.out)["submitted"]
    found = re.fullmatch(r"additive seed 0: job (\d+_0)", line)
    assert found
    with paused(project) as (digest, pid):
        (one,) = status(project, **nodes.settings)
        assert (one["job"], one["run"], one["state"]) == (found[1], "additive seed 0", "running")
        (elsewhere,) = status(project, SLURM_CONF=os.devnull)
        assert elsewhere == one | {"state": "started"}
        process = project.start("train", "fusion", *ONE, *SLURM, **nodes.settings)
        assert process.stderr is not None
        said = process.stderr.readline()
        assert said == f"additive seed 0: job {found[1]} does it already; this command waits for it\n"
        nodes.run("scancel", found[1])
        wait_for(lambda: signalled(pid))
    _, text = process.communicate(timeout=600)
    assert process.returncode == 1, text
    assert f"additive seed 0: job {found[1]} was cancelled; run the same command to resume" in text
    assert outputs(project) == {}
    done = project.isoscope("train", "fusion", *ONE, *SLURM, **nodes.settings)
    assert "resuming from step" in done.err
    assert outputs(project) == {digest: local[digest]}
    assert len(attempts(project)) == 2


def test_extraction_is_a_job(finished: Finished, nodes: SlurmNodes, tmp_path: Path) -> None:
    project = finished.project.copy(tmp_path / "project", mirrored=False)
    project.isoscope("states", "fusion", "additive", *SLURM, **nodes.settings)
    assert project.isoscope("states", "fusion", "additive", "--json").err == ""
    (one,) = status(project, **nodes.settings)
    assert (one["state"], one["run"]) == ("done", "additive seed 0")


def test_trials_of_a_search_are_jobs(project: Project, nodes: SlurmNodes) -> None:
    text = re.sub(r"^search:.*\n", SEARCH, project.text("params.yaml"), flags=re.M)
    (project.folder / "params.yaml").write_text(text, "utf-8")
    shorter = ("-S", "training.epochs=3")
    done = project.isoscope("search", "run", "--workers", "2", *shorter, *SLURM, "--json", **nodes.settings)
    assert json.loads(done.out)["complete"] == 2
    trained = [record for record in project.records().values() if record.run and record.run.stage == "train"]
    assert [record.run.params["training.epochs"] for record in trained if record.run] == [3, 3]
    assert all(one.job for record in trained for one in record.attempts)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # nobody waits for scancel
@pytest.mark.parametrize("alone", [True, False])
def test_a_job_that_a_killed_command_left_is_stopped_if_no_other_command_may_do_it(
    nodes: SlurmNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    """A pruned trial of a search that was started again; a command that trains cells leaves another's jobs."""
    for name, value in nodes.settings.items():
        monkeypatch.setenv(name, value)
    nodes.run("scontrol", "update", "nodename=n1,n2", "state=drain", "reason=test")  # so that the job waits
    piece = Piece("trial 0", lambda shown: "", ("search", "trial"), alone=alone)
    here = Here(tmp_path, tmp_path)
    try:
        killed = Slurm((), each=1, project=here)
        killed.start(piece)
        killed.step()
        followed = Slurm((), each=1, project=here).start(piece)
        assert followed.said() == [f"job {followed.id} does it already; this command waits for it"]
        followed.stop(signal.SIGKILL)
        if alone:
            wait_for(lambda: nodes.run("squeue", "--me", "--noheader") == "")
        else:
            assert followed.ended is not None
            assert nodes.run("squeue", "--me", "--noheader") != ""
    finally:
        nodes.run("scancel", "--me")
        nodes.run("scontrol", "update", "nodename=n1,n2", "state=resume")


def test_a_node_dies_and_every_cell_is_done_once(
    project: Project, nodes: SlurmNodes, local: dict[str, dict[str, str]]
) -> None:
    nodes.run("scontrol", "update", "nodename=n1", "state=drain", "reason=test")
    process = project.start("train", "fusion", *ONE, *SLURM, **nodes.settings)
    with paused(project):
        nodes.run("scontrol", "update", "nodename=n2", "state=drain", "reason=test")
        nodes.kill("n2")
        nodes.run("scontrol", "update", "nodename=n2", "state=down", "reason=test")
    nodes.run("scontrol", "update", "nodename=n1", "state=resume")
    _, text = process.communicate(timeout=600)
    assert process.returncode == 0, text
    assert outputs(project).items() <= local.items()
    assert [one.job["node"] for one in attempts(project)] == ["n2", "n1"]
