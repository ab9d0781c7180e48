"""One owner per run."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from isoscope.base.errors import InputError
from isoscope.platform.runs.lease import Lease, held

# Takes the lease so many times; the holder creates a file that must not exist before.
CONTEND = """
import os, random, sys, time
from pathlib import Path
from isoscope.base.errors import InputError
from isoscope.platform.runs.lease import Lease
folder, wanted = Path(sys.argv[1]), int(sys.argv[2])
alone = folder / "alone"
had = refused = 0
while had < wanted:
    try:
        with Lease(folder):
            os.close(os.open(alone, os.O_CREAT | os.O_EXCL))
            time.sleep(random.random() * 1e-3)
            alone.unlink()
            had += 1
    except InputError:
        refused += 1
    time.sleep(random.random() * 1e-3)
print(had, refused)
"""
HOLD = """
import sys, time
from pathlib import Path
from isoscope.platform.runs.lease import Lease
lease = Lease(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_owner_is_refused_and_told_who_has_it(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    assert held(tmp_path)
    assert not held(tmp_path / "none"), "never begun"
    with pytest.raises(InputError, match=f"held by process {holder.pid}") as caught:
        Lease(tmp_path)
    assert "\n" not in str(caught.value)
    assert held(tmp_path), "the attempt must not take it away"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_dead_owner_frees_it(holder: subprocess.Popen[str], tmp_path: Path, number: signal.Signals) -> None:
    holder.send_signal(number)
    holder.wait()
    assert not held(tmp_path)
    with Lease(tmp_path) as lease:
        assert json.loads(lease.path.read_text())["pid"] == os.getpid()
    assert not held(tmp_path)


def test_a_thousand_turns_between_four_processes_and_never_two_owners(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CONTEND, str(tmp_path), "250"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    answers = [process.communicate(timeout=600)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert sum(int(had) for had, _ in answers) == 1000
    assert sum(int(refused) for _, refused in answers) > 100, "they did meet"
