"""`isoscope ui` names each experiment's page; its server ends with it, however it ends, and shows no password."""

import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from isoscope.platform.mirror.replay import mirror
from pipeline_project import family, left
from tracked_runs import write_record

MAIN = "import sys; from isoscope.platform.cli import main; main()"


@pytest.fixture
def pages(project: Path) -> Path:
    for name in ("params.yaml", "dvc.yaml"):
        (project / name).write_text("{}\n")
    write_record(project)
    mirror(project)
    return project


def heard() -> None:
    """Let a hang-up end the process, also below nohup, which makes every process ignore it."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def served(folder: Path, *before: str) -> tuple[subprocess.Popen[bytes], list[psutil.Process]]:
    """A running `isoscope ui` and all its processes, once its page answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*before, sys.executable, "-W", "ignore", "-c", MAIN, "ui", "--port", str(port)]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, start_new_session=True, preexec_fn=heard)
    while True:
        assert process.poll() is None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return process, family(process)
        except OSError:
            time.sleep(0.2)


SIGHUP = pytest.param(signal.SIGHUP, marks=pytest.mark.exhaustive)  # handled as SIGTERM is


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, SIGHUP])
def test_no_process_outlives_it(pages: Path, number: int) -> None:
    process, all_of_it = served(pages)
    assert len(all_of_it) > 2, "the server has processes of its own"
    words = [word for one in all_of_it for word in one.cmdline()]
    assert not [word for word in words if "mlflow.db" in word], "an address may hold a password; anybody may list words"
    process.send_signal(number)
    said, _ = process.communicate(timeout=300)
    assert re.search(rb"^  fusion: http://127\.0\.0\.1:\d+/#/experiments/\d+/runs", said, re.MULTILINE)
    assert not left(all_of_it, seconds=60)
