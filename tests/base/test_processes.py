"""A stop is noticed between steps, and a process ends with its parent."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from isoscope.base.processes import StopSignal, starter


def test_the_first_signal_is_noted_and_the_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignal() as stop:
        assert stop.received is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.received == signal.SIGTERM
        assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL  # a second one ends the process
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_starter_is_found_past_shells() -> None:
    code = "from isoscope.base.processes import starter; print(starter())"
    shown = subprocess.run(
        ["sh", "-c", f"{sys.executable} -c '{code}'; true"], capture_output=True, text=True, check=True
    )
    assert int(shown.stdout) == os.getpid()
    assert starter() in {parent.pid for parent in psutil.Process().parents()}


STAGE = (
    "from isoscope.base.processes import die_with, starter; import time; die_with(starter()); "
    "print('up', flush=True); time.sleep(600)"
)
PARENT = "import subprocess, sys; subprocess.run(['sh', '-c', sys.argv[1] + ' -c \"' + sys.argv[2] + '\"; true'])"


def alive(process: psutil.Process) -> bool:
    """Whether a process is still at work; it may go between two questions."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_orphan_stays(number: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, sys.executable, STAGE],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "up\n"
    children = psutil.Process(parent.pid).children(recursive=True)
    stage = next(child for child in children if "python" in child.name())
    parent.send_signal(number)
    parent.wait()
    parent.stdout.close()
    began = time.monotonic()
    while alive(stage) and time.monotonic() - began < 600:
        time.sleep(0.1)
    assert not alive(stage)
