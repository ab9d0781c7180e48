"""Searches of short sleeps in separate processes: started, killed, and inspected after their end."""

import collections
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import optuna

from isoscope.platform.runs.record import read

WORK = Path(__file__).with_name("search_work.py")
STATES = optuna.trial.TrialState
BEGUN: list[subprocess.Popen[str]] = []  # what a failed test leaves running is killed at its end (conftest.py)


def begin(folder: Path, environment: Mapping[str, str] = MappingProxyType({}), **given: Any) -> subprocess.Popen[str]:
    """A search in a folder, with its own process group; `given`: see `search_work.GIVEN`."""
    command = [sys.executable, "-W", "ignore", str(WORK), str(folder), json.dumps(given)]
    path = os.pathsep.join([str(WORK.parents[1] / "src"), str(WORK.parent)])
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": path, **environment},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    BEGUN.append(process)
    return process


def ended(process: subprocess.Popen[str], seconds: float = 600, *, code: int = 0) -> str:
    """Wait for its end, check the exit code and return its output."""
    _, said = process.communicate(timeout=seconds)
    assert process.returncode == code, said
    return said


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def tree(pid: int) -> list[int]:
    return [pid, *(one for child in children(pid) for one in tree(child))]


def kill(*pids: int, number: int = signal.SIGKILL) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def kill_all() -> None:
    """Kill the searches that still run, with all that they have started."""
    while BEGUN:
        process = BEGUN.pop()
        if process.poll() is None:
            kill(*tree(process.pid))
            process.communicate()


def trials_of(folder: Path, url: str | None = None) -> list[optuna.trial.FrozenTrial]:
    storage = optuna.storages.RDBStorage(url or f"sqlite:///{folder / 'studies.db'}")
    try:
        return optuna.load_study(study_name="sleep", storage=storage).trials
    finally:
        storage.engine.dispose()


def in_state(state: optuna.trial.TrialState, folder: Path, url: str | None = None) -> list[optuna.trial.FrozenTrial]:
    """Trials so far; the folder is made by a study's first run."""
    return [one for one in trials_of(folder, url) if one.state == state] if (folder / "runs").exists() else []


def wait(process: subprocess.Popen[str], until: Callable[[], bool]) -> None:
    """Wait for something while a process lives."""
    while not until():
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)


def check(folder: Path, trials: int, url: str | None = None, *, steps_once: bool = True) -> None:
    """Every trial finished once, each with one record, and (`steps_once`) no step of a run done twice.

    Where the storage went, and all its locks with it, a second worker may have begun a run within the second that the
    first one takes to notice. (Of training runs the run's own lease lets only one work.)
    """
    found = trials_of(folder, url)
    assert collections.Counter(trial.state for trial in found) == {STATES.COMPLETE: trials}
    assert [trial.number for trial in found] == list(range(trials))
    records = [read(path) for path in (folder / ".isoscope/records").glob("*.jsonl")]
    assert {record.status for record in records} == {"FINISHED"}
    noted = [record.run.tags["optuna.trial"] for record in records if record.run and record.run.stage == "trial"]
    assert sorted(map(int, noted)) == list(range(trials))
    for file in (folder / "runs").glob("*.log") if steps_once else ():
        steps = [int(line) for line in file.read_text().splitlines()]
        # One of them may have been noted by a process that was killed before it could say so.
        assert steps == sorted(set(steps)), f"{file.name}: {steps}"
