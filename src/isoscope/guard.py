"""Ending well: a signal is noticed between two steps, and no process outlives the one that started it."""

import contextlib
import ctypes
import os
import select
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Self

_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
_OWN_TREE = "ISOSCOPE_OWN_TREE"
_PR_SET_PDEATHSIG = 1
_GRACE = 3.0  # seconds between asking to stop and killing


class StoppedError(Exception):
    """The run was asked to stop by a signal and has saved its state."""

    def __init__(self, signum: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + signum


class StopSignal:
    """Turns the first SIGINT, SIGTERM or SIGHUP into a flag; a second one ends the process as usual.

    A hang-up that the process was told to ignore (`nohup`) stays ignored. Used as a context manager in the main thread;
    `received` is the signal's number, or None.
    """

    def __init__(self) -> None:
        self.received: int | None = None

    @property
    def finish(self) -> bool:
        """Whether to start nothing new."""
        return self.received is not None

    @property
    def stop(self) -> bool:
        """Whether to stop now."""
        return self.received is not None

    def __enter__(self) -> Self:
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        self._before = {number: signal.signal(number, self._note) for number in numbers}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self, message: str) -> None:
        """Raise `StoppedError` with this message after a signal."""
        if self.received is not None:
            raise StoppedError(self.received, message)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        for other in self._before:
            signal.signal(other, signal.SIG_DFL)


def run_own_tree() -> None:
    """In a checkout of isoscope: go on with its own sources, if they are not the installed ones.

    DVC runs experiments in copies of the tree, and an installation points at one tree only: the code that is hashed,
    and whose commit is noted, must be the code that runs.
    """
    package = Path.cwd() / "src" / "isoscope"
    if _OWN_TREE in os.environ or not (package / "__main__.py").is_file():
        return
    if package.resolve() != Path(__file__).resolve().parent:
        before = os.environ.get("PYTHONPATH")
        path = str(package.parent) if before is None else f"{package.parent}{os.pathsep}{before}"
        environment = {**os.environ, _OWN_TREE: "1", "PYTHONPATH": path}
        os.execve(sys.executable, [sys.executable, "-P", "-m", "isoscope", *sys.argv[1:]], environment)


def _parent_of(pid: int) -> tuple[int, str]:
    """Parent's pid and the process's own name, from /proc."""
    text = Path(f"/proc/{pid}/stat").read_text()
    name, _, rest = text.partition("(")[2].rpartition(")")
    return int(rest.split()[1]), name


def starter() -> int | None:
    """The process that started this one, past the shells between, or None where there is no /proc."""
    try:
        pid = os.getppid()
        while pid > 1:
            parent, name = _parent_of(pid)
            if name not in _SHELLS:
                return pid
            pid = parent
    except OSError:
        return None
    return None


def die_with(pid: int | None) -> None:
    """When process `pid` ends, ask this process to stop, and kill it if it has not in three seconds.

    A stage run by DVC would otherwise go on after DVC was killed, and write beside its successor. Linux only (pidfd);
    elsewhere nothing is watched.
    """
    if pid is None or not hasattr(os, "pidfd_open"):
        return
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:  # gone already
        _end()
        return

    def watch() -> None:
        select.select([descriptor], [], [])
        _end()

    threading.Thread(target=watch, name="die-with-parent", daemon=True).start()


def end_with_parent(number: int) -> None:
    """Have this process sent a signal when the one that started it ends, however that ends. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def _end() -> None:
    with contextlib.suppress(OSError):
        print(f"isoscope: the process that started this one is gone: stopping (pid {os.getpid()})", file=sys.stderr)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE)
    os.kill(os.getpid(), signal.SIGKILL)
