"""Without any network, in a network namespace, everything works on local files.

A server in that namespace (warm.py) runs the commands; it watches from its first import.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import warm
from pipeline_project import Finished, Project

# Loaded by every Python process: notes the hosts that it looks up or calls.
WATCH = """\
import os, sys
def note(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        with open(os.environ["CALLS"], "a") as file:
            file.write(f"{event} {arguments[1] if event != 'socket.getaddrinfo' else arguments[0]!r}\\n")
sys.addaudithook(note)
"""


def namespace() -> list[str]:
    """Return the command that runs its arguments in a namespace with loopback only."""
    prefix = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") is None or subprocess.run([*prefix, "true"], check=False).returncode:
        pytest.skip("this system gives no network namespace")
    return [*prefix, "sh", "-c", 'ip link set lo up; exec "$@"', "sh"]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("calls")


def test_nobody_is_called(finished: Finished, tmp_path: Path, calls: Path) -> None:
    prefix = namespace()
    alone = subprocess.run([*prefix, "ip", "-brief", "link"], capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in alone.stdout.splitlines()] == ["lo"]
    gone = (".isoscope", "data", "models", "reports", "mlflow.db", "dvc.lock", ".dvc")
    project = finished.project.copy(tmp_path / "project", without=gone)
    shutil.copytree(finished.project.folder / ".dvc", project.folder / ".dvc", ignore=shutil.ignore_patterns("cache"))
    (calls / "sitecustomize.py").write_text(WATCH)
    watched = {"CALLS": str(calls / "log"), "PYTHONPATH": f"{calls}{os.pathsep}{project.sources}"}
    project.binaries = warm.start(calls, *prefix, **watched)
    path = f"{project.binaries}{os.pathsep}{os.environ['PATH']}"
    training = ("train", "fusion", "additive", "--seed", "5")
    for words in (("repro",), training, ("mirror",), ("accept",), ("gc",)):
        project.run(str(project.binaries / "isoscope"), *words, PATH=path, ISOSCOPE_OWN_TREE="1", **watched)
    assert len(Project(project.folder).tracked(mirrored=False)) == len(project.records())
    assert "Order of two words" in project.text("reports/index.html")
    log = (calls / "log").read_text().splitlines() if (calls / "log").exists() else []
    assert [line for line in log if "127.0.0.1" not in line and "::1" not in line and "localhost" not in line] == []


def test_the_watch_sees_a_call(calls: Path) -> None:
    """The negative control."""
    log = calls / "control"
    environment = {**os.environ, "CALLS": str(log), "PYTHONPATH": str(calls)}
    (calls / "sitecustomize.py").write_text(WATCH)
    code = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('192.0.2.1', 9))"
    subprocess.run(["python3", "-c", code], env=environment, check=False, capture_output=True)
    assert "192.0.2.1" in log.read_text()
