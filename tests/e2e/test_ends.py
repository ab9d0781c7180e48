"""The eleven ways in which a run can end, and its status in MLflow."""

import os
import signal
import subprocess
from pathlib import Path

from isoscope.platform.runs.lines import RunRecord
from pipeline_project import Project, wait_for

SAID = "marked as KILLED"
PLUGIN = """
from isoscope.plugins import fusion

@fusion("ending")
def ending(hidden_size: int, way: str):
    import os, signal, sys, torch

    class Ending(torch.nn.Module):
        seen = 0

        def forward(self, word, position, token_type, mask):
            Ending.seen += 1
            if Ending.seen == 20:
                if way == "raises": raise ValueError("no luck")
                if way == "exits 0": sys.exit(0)
                if way == "exits 1": sys.exit(1)
                if way == "leaves": os._exit(0)
                if way == "segfaults": os.kill(os.getpid(), signal.SIGSEGV)
                if way == "memory": raise MemoryError
                if way == "diverges": return word * float("nan")
                for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"):
                    if way == name: os.kill(os.getpid(), getattr(signal, name))
            return word + position + token_type

    return Ending()
"""
# Way, status in the record when the process is gone, and the true one.
ENDS = [
    ("runs through", "FINISHED", "FINISHED"),
    ("raises", "FAILED", "FAILED"),
    ("memory", "FAILED", "FAILED"),
    ("diverges", "FAILED", "FAILED"),
    ("exits 0", "FAILED", "FAILED"),
    ("exits 1", "FAILED", "FAILED"),
    ("SIGINT", "KILLED", "KILLED"),
    ("SIGTERM", "KILLED", "KILLED"),
    ("SIGHUP", "KILLED", "KILLED"),
    ("SIGKILL", "RUNNING", "KILLED"),
    ("leaves", "RUNNING", "KILLED"),
    ("segfaults", "RUNNING", "KILLED"),
]


def newest(project: Project, way: str) -> RunRecord:
    return next(
        record
        for record in project.records().values()
        if record.run and record.run.params.get("model.fusion.way") == way
    )


def test_every_end_has_its_status(project: Project) -> None:
    """The run is trained directly, so that only the run itself determines its end and its record."""
    (project.folder / "plugins" / "ending.py").write_text(PLUGIN, "utf-8")
    variants = project.folder / "variants" / "fusion"
    runs = {}
    for way, _, _ in ENDS:
        name = way.replace(" ", "_")
        (variants / f"{name}.yaml").write_text(f"model: {{fusion: {{kind: ending, way: {way!r}}}}}\n", "utf-8")
        axes = f"studies.fusion.axes.fusion=[additive, {name}]"
        command = ("train", "fusion", name, "--seed", "0", "--plugin", "plugins/ending.py", "-S", axes)
        runs[way] = subprocess.Popen(
            [project.binaries / "isoscope", *command],
            cwd=project.folder,
            env=project.environment(ISOSCOPE_FOLLOWED="1"),
            stderr=subprocess.PIPE,
            text=True,
        )
        if len(runs) % 2 == 0:
            for process in runs.values():
                process.wait(600)
    errors = {way: process.communicate(timeout=600)[1] for way, process in runs.items()}
    for way in ("raises", "memory", "exits 0", "exits 1"):
        assert runs[way].returncode == 1, way
        assert "plugins/ending.py, line " in errors[way].splitlines()[-1], way
    before = {way: _own(newest(project, way), errors[way]) for way, _, _ in ENDS}
    project.isoscope("reconcile")
    assert {way: newest(project, way).status for way, _, _ in ENDS} == {way: true for way, _, true in ENDS}
    assert before == {way: written for way, written, _ in ENDS}
    shown = project.tracked(mirrored=False)
    assert {run.status for run in shown.values()} <= {"FINISHED", "FAILED", "KILLED"}
    for way, _, true in ENDS:
        run = newest(project, way).run
        assert shown[run.digest].status == true, way
    assert project.isoscope("reconcile").out == "no run to mark as KILLED\n"


def _own(record: RunRecord, error: str) -> str:
    """Return the status after the run's process ended; a later command of the project may have corrected it already."""
    return (
        "RUNNING" if record.end is not None and (record.end.reason or "").startswith("its process") else record.status
    )


def fifth(project: Project) -> list[RunRecord]:
    """The record of seed 5, once it has metrics."""
    return [record for record in project.records().values() if record.run and record.run.seed == 5 and record.metrics]


def test_a_live_run_is_never_touched(project: Project) -> None:
    command = ("train", "fusion", "additive", "--seed", "5", "-S", "training.epochs=2000")
    process = project.start(*command)
    try:
        wait_for(lambda: fifth(project))
        process.send_signal(signal.SIGSTOP)
        refused = project.refused(*command)
        assert "already in progress" in refused
        assert f"process {process.pid} " in refused
        assert SAID not in project.isoscope("reconcile").err
        assert fifth(project)[0].status == "RUNNING"
        assert fifth(project)[0].end is None
        process.send_signal(signal.SIGCONT)
    finally:
        process.kill()
        process.communicate()
    assert fifth(project)[0].status == "RUNNING"
    healed = project.isoscope("mirror").err
    assert healed.count(SAID) == 1
    assert fifth(project)[0].status == "KILLED"


def test_where_nothing_died_mlflow_is_not_imported(project: Project, tmp_path: Path) -> None:
    (tmp_path / "mlflow.py").write_text("raise ImportError('mlflow was imported')\n", "utf-8")
    path = f"{tmp_path}{os.pathsep}{project.sources}"
    assert project.cold.isoscope("reconcile", "--json", PYTHONPATH=path).out == '{"killed": []}\n'
