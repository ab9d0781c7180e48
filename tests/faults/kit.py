"""Run a command of isoscope in a separate process and inject a fault at one durable write.

The product announces each durable write to Python's audit hooks (`isoscope.base.atomic_files.announce`); the hook of
this kit counts them. At the chosen write it kills the process, asks it to stop, or makes the write fail like a disk.
"""

import atexit
import errno
import hashlib
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Literal, NamedTuple

from isoscope.base.atomic_files import EVENT

Action = Literal["kill", "terminate", "full", "broken"]
LOGS = "ISOSCOPE_TEST_LOGS"
_ERRORS = {"full": errno.ENOSPC, "broken": errno.EIO}
if LOGS not in os.environ:  # the first process of this test run makes the folder, and takes it away
    os.environ[LOGS] = tempfile.mkdtemp(prefix="isoscope-attempts-")
    atexit.register(shutil.rmtree, os.environ[LOGS])
# Forked from a process that has the libraries: an attempt costs its work, not the imports.
_CONTEXT = multiprocessing.get_context("forkserver")
_STAGES = ("train", "prepare", "report", "states", "analyse")
_SCIENCE = ("isoscope.training.job", "isoscope.states.extract", "isoscope.states.measure")
_CONTEXT.set_forkserver_preload(
    [*(f"isoscope.platform.stages.{one}" for one in _STAGES), *_SCIENCE, "isoscope.platform.cli", __name__, "warmed"]
)
VIEWS = slice(2, 3)
"""The views that `analyse` draws here: each is written in the same way, and drawing all of them takes minutes."""


class Write(NamedTuple):
    """A durable write by its point, its path below the project, and how many of the like come before it."""

    point: str
    path: str
    nth: int


class Fault(NamedTuple):
    """The fault at the durable write `at`, by number (from 0) or name; `lasting`: at every later write too."""

    action: Action
    at: int | Write
    lasting: bool = False


class Ended(NamedTuple):
    """The end of an attempt: exit code (negative: signal), stderr, and its durable writes in order."""

    code: int
    err: str
    points: list[tuple[str, str]]


def start(folder: Path, words: tuple[str, ...], fault: Fault | None = None) -> BaseProcess:
    """Begin `isoscope words…` in `folder`."""
    process = _CONTEXT.Process(target=_attempt, args=(folder, words, fault))
    process.start()
    return process


def attempt(folder: Path, *words: str, fault: Fault | None = None, seconds: float | None = None) -> Ended:
    """Run `isoscope words…` in `folder` to its end, or kill it after `seconds`."""
    if fault is not None or seconds is not None:
        _count(f"{words[0]}: {_described(fault)}")
    process = start(folder, words, fault)
    process.join(120 if seconds is None else seconds)
    if seconds is not None and process.is_alive():
        process.kill()
        process.join()
    assert process.exitcode is not None, f"isoscope {' '.join(words)} hangs"
    seen = _log(folder, ".points").read_text("utf-8").splitlines()
    points = [(point, path) for point, _, path in (line.partition(" ") for line in seen)]
    return Ended(process.exitcode, _log(folder, ".err").read_text("utf-8"), points)


def named(points: list[tuple[str, str]], folder: Path) -> Write:
    """The last of these writes by name."""
    return Write(points[-1][0], points[-1][1].removeprefix(f"{folder}/"), points.count(points[-1]) - 1)


def _described(fault: Fault | None) -> str:
    if fault is None:
        return "kill at a random moment"
    return f"{fault.action} at a durable write{' and every later one' if fault.lasting else ''}"


def _count(strike: str) -> None:
    """Record one injected fault for the summary."""
    descriptor = os.open(Path(os.environ[LOGS], "strikes"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, f"{strike}\n".encode())
    os.close(descriptor)


def strikes() -> Counter[str]:
    """Count the injected faults of all processes of this test run."""
    try:
        return Counter(Path(os.environ[LOGS], "strikes").read_text("utf-8").splitlines())
    except FileNotFoundError:
        return Counter()


def _log(folder: Path, suffix: str) -> Path:
    """Return a file for an attempt's output, not on its disk, which may be full."""
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return Path(os.environ[LOGS], name + suffix)


def _attempt(folder: Path, words: tuple[str, ...], fault: Fault | None) -> None:
    with _log(folder, ".err").open("w") as err:
        os.dup2(err.fileno(), 1)
        os.dup2(err.fileno(), 2)
    sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
    os.chdir(folder)
    os.environ["ISOSCOPE_FOLLOWED"] = "1"  # MLflow has tests of its own
    os.environ["ISOSCOPE_OWN_TREE"] = "1"  # the sources imported here, not the project's copy of them
    descriptor = os.open(_log(folder, ".points"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    seen: list[tuple[str, str]] = []
    struck = False

    def hook(event: str, arguments: tuple[str, ...]) -> None:
        nonlocal struck
        if event != EVENT:
            return
        os.write(descriptor, f"{arguments[0]} {arguments[1]}\n".encode())
        seen.append((arguments[0], arguments[1]))
        if fault is not None and (fault.at in (len(seen) - 1, named(seen, folder)) or (struck and fault.lasting)):
            struck = True
            _strike(fault.action, arguments[1])

    sys.addaudithook(hook)
    sys.argv = ["isoscope", *words]
    from isoscope.platform.cli import main
    from isoscope.studies.fusion import views as fusion

    fusion.VIEWS = fusion.VIEWS[VIEWS]
    main()


def _strike(action: Action, path: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)  # the signal comes when it comes
    elif action == "terminate":
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        raise OSError(_ERRORS[action], os.strerror(_ERRORS[action]), path)
