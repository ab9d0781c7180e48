"""`isoscope ls` shows the runs, `isoscope rm` removes them with all that is theirs, and training brings them back."""

import json
import os
import pty
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from isoscope.base.paths import Project as Places
from isoscope.platform.executor.slurm import ended
from isoscope.platform.runs.provenance import file_md5s
from isoscope.platform.runs.upkeep import clear
from pipeline_project import BINARIES, Finished, Project, wait_for

CELL, RUN = ("train", "fusion", "conv2d", "--seed", "0"), "fusion/conv2d/seed-0"
FOUR = ("-S", "training.schedule.epochs=8", "-S", "training.learning_rate=1e-3")
KEPT = ("-S", "training.keep_state=true")


@pytest.fixture
def project(finished: Finished, tmp_path: Path) -> Project:
    return finished.project.copy(tmp_path / "project", without=("docs",))


def rows(project: Project, *words: str) -> dict[str, dict[str, Any]]:
    """The runs that a command lists, by digest."""
    return {row["run"]: row for row in json.loads(project.isoscope("ls", *words, "--json").out)["runs"]}


def mine(project: Project, digest: str) -> list[str]:
    """What there is of a run: in the store, the records and MLflow."""
    here = project.folder / ".isoscope"
    places = [here / "runs" / digest, here / "records" / f"{digest}.jsonl"]
    return [path.parent.name for path in places if path.exists()] + ["mlflow"] * (digest in project.tracked())


def test_a_removed_run_leaves_nothing_and_dvc_brings_it_back(project: Project) -> None:
    digest, output = project.digest("conv2d"), project.output("conv2d")
    before, others = file_md5s(output), file_md5s(project.output("additive"))
    assert mine(project, digest) == ["runs", "records", "mlflow"]
    shown = json.loads(project.isoscope("rm", RUN, "--dry-run", "--json").out)
    assert (shown["removed"], output.is_dir(), mine(project, digest)) == (
        [digest],
        True,
        ["runs", "records", "mlflow"],
    )
    assert shown["dependents"] == {digest: ["analyse fusion", "reports/index.html"]}
    said = project.isoscope("rm", RUN, "--yes", "--mlflow").out
    assert f"{RUN} ({digest[:12]}, " in said
    assert "needed by: analyse fusion, reports/index.html" in said
    assert (output.exists(), mine(project, digest)) == (False, [])
    assert file_md5s(project.output("additive")) == others
    assert "modified:" in project.dvc("status", "train@fusion").out
    assert digest not in rows(project)
    assert project.isoscope("repro").restored == ["train@fusion"]
    assert file_md5s(output) == before
    assert rows(project)[digest]["state"] == ["restored"]
    assert "found finished" in project.isoscope(*CELL).err
    assert file_md5s(output) == before


def test_training_again_gives_the_same_bytes(project: Project) -> None:
    digest, output, before = project.digest("conv2d"), project.output("conv2d"), file_md5s(project.output("conv2d"))
    shutil.rmtree(project.folder / ".dvc/cache")
    project.isoscope("rm", digest[:12], "--yes")
    assert "trained fusion conv2d seed 0" in project.isoscope(*CELL).out
    assert file_md5s(output) == before
    assert rows(project, "fusion")[digest]["status"] == "finished"
    project.isoscope("rm", "fusion/conv2d", "--yes")
    assert "train@fusion" in project.isoscope("repro").ran
    assert file_md5s(output) == before
    assert project.isoscope("repro").ran == []
    project.isoscope("mirror")
    assert json.loads(project.isoscope("audit", "--json").out) == {"sound": True, "findings": []}, (
        "MLflow has old speeds"
    )


def test_a_run_is_gone_for_good_without_its_arm_and_its_cached_files(project: Project) -> None:
    digest, objects = project.digest("conv2d"), project.folder / ".dvc/cache/files/md5"
    before = {path for path in objects.rglob("*") if path.is_file()}
    project.isoscope("rm", RUN, "--yes")
    project.lay("studies: {fusion: {axes: {fusion: [additive]}}}")
    assert "train@fusion" in project.isoscope("repro").ran
    project.dvc("gc", "--workspace", "--force")
    assert len(before - {*objects.rglob("*")}) > 5
    assert digest not in rows(project)
    project.git("checkout", "params.yaml")
    assert "found finished" not in project.isoscope(*CELL).err
    assert project.digest("conv2d") == digest


def test_what_nobody_answers_names_or_may_have_is_refused(project: Project) -> None:
    assert project.refused("rm", RUN) == (
        "isoscope: rm asks before it removes, and nobody can answer here; give --yes (see: --dry-run)"
    )
    for word in ("fusion", "fusion/con", "conv2d", "abcdef", "ab", "../models", "fusion/"):
        assert f"isoscope: {word.rstrip('/')}: names no run; give STUDY/ARM," in project.refused(
            "rm", RUN, word, "--yes"
        )
    uri = {"MLFLOW_TRACKING_URI": "http://127.0.0.1:1"}
    assert "MLflow at http://127.0.0.1:1: " in project.refused("rm", RUN, "--yes", "--mlflow", **uri)
    # So long that it cannot end before it is stopped.
    process = project.start(*CELL, "-S", "training.epochs=1000")
    try:
        wait_for(lambda: [row for row in rows(project).values() if "running" in row["state"] and row["worked"]])
        (running,) = [row["run"] for row in rows(project).values() if "running" in row["state"]]
        process.send_signal(signal.SIGSTOP)
        line = project.refused("rm", RUN, "--yes")
        assert f"{RUN} ({running[:12]}): this run is already in progress: held by process {process.pid} on " in line
    finally:
        process.kill()
        process.communicate()
    assert project.output("conv2d").is_dir(), "nothing was removed"
    wait_for(lambda: "its process died" in (rows(project)[running]["reason"] or ""))


def test_it_asks_at_a_terminal(project: Project) -> None:
    for answer, stays in (("n", True), ("y", False)):
        controller, terminal = pty.openpty()
        command = [str(BINARIES / "isoscope"), "rm", RUN]
        given: Any = {"cwd": project.folder, "env": project.environment(), "stderr": subprocess.PIPE}
        with subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, **given) as process:
            os.write(controller, f"{answer}\n".encode())
            out, said = process.communicate(timeout=600)
        os.close(controller)
        os.close(terminal)
        assert "Remove? [y/N]" in said.decode()
        assert (project.output("conv2d").is_dir(), process.returncode) == (stays, 130 if stays else 0)
        assert (b"removed: 1" in out) is not stays


def test_a_kept_state_is_listed_used_and_removed_on_demand(project: Project) -> None:
    project.isoscope(*CELL, *FOUR, *KEPT, "-S", "training.epochs=2")
    (kept,) = [row for row in rows(project).values() if row["state"] == ["kept state"]]
    place = f".isoscope/runs/{kept['run']}/states"
    shown = json.loads(project.isoscope("gc", "--json").out)
    assert list(shown["kept_states"]) == [place]
    assert shown["kept_states"][place] > 0
    assert f"kept: {place} (" in project.isoscope("gc", "--idle-days", "0").out
    assert "from its kept state" in project.isoscope(*CELL, *FOUR, "-S", "training.epochs=4").err
    (longer,) = [row for row in rows(project).values() if row["began"]]
    assert longer["began"]["run"] == kept["run"]
    assert place in json.loads(project.isoscope("gc", "--states", "--json").out)["removed"]
    assert rows(project)[kept["run"]]["state"] == []
    assert "kept no state (training.keep_state)" in project.isoscope(*CELL, *FOUR, "-S", "training.epochs=5").err


def test_jobs_that_have_ended_leave_nothing_after_a_while(tmp_path: Path) -> None:
    def submitted(name: str, *codes: str) -> Path:
        folder = tmp_path / ".isoscope/slurm" / name
        folder.mkdir(parents=True)
        words = ["train", "--setup", str(tmp_path / f".isoscope/slurm/setup-{name}.yaml")]
        runs = [[f"run {number}", words] for number in range(2)]
        (folder / "submission.json").write_text(json.dumps(["12", 1, False, runs]))
        for number, code in enumerate(codes):
            (folder / f"{number}.code").write_text(f"{code}\n")
        (folder.parent / f"setup-{name}.yaml").write_text("project: []\n")
        return folder

    (tmp_path / "params.yaml").write_text("")
    project, done, half = Places(tmp_path, tmp_path), submitted("done", "0", "1"), submitted("half", "0")
    over = {done, done.with_name("setup-done.yaml")}
    assert {*ended(project.slurm)} == over, "without Slurm, a run without an exit code may be under way"
    given: Any = {"cache": tmp_path, "ended": over}
    assert clear(project, idle_days=0, **given)[0] == [], "a command may still read them"
    for path in over:
        os.utime(path, (0, 0))
    assert {piece.path for piece in clear(project, idle_days=30, **given)[0]} == over
    assert half.is_dir()
    assert half.with_name("setup-half.yaml").is_file()
