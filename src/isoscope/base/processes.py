"""A process among others: its rank, a stop at a safe point after a signal, and an end with the parent process."""

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

from isoscope.base.errors import InputError

_OWN_TREE = "ISOSCOPE_OWN_TREE"


class StoppedError(Exception):
    """A signal asked the run to stop, and the run has saved its state."""

    def __init__(self, signum: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + signum


class StopSignal:
    """Turns the first SIGINT, SIGTERM or SIGHUP into a flag; a second signal ends the process as usual.

    An ignored SIGHUP (`nohup`) stays ignored. A context manager for the main thread; `received`: the signal's number,
    or None.
    """

    def __init__(self) -> None:
        self.received: int | None = None

    @property
    def finish(self) -> bool:
        """Return whether to start nothing new, and to stop now."""
        return self.received is not None

    stop = finish

    def __enter__(self) -> Self:
        ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        numbers = (signal.SIGINT, signal.SIGTERM, *(() if ignored else (signal.SIGHUP,)))
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
    """In a checkout of isoscope, restart with its own sources if they are not the installed sources.

    DVC runs experiments in copies of the tree, but an installation points to a single tree. The code that is hashed and
    whose commit is recorded must be the code that runs. Raises `InputError` if the working folder is gone.
    """
    try:
        package = Path.cwd() / "src" / "isoscope"
    except FileNotFoundError:
        raise InputError("the working folder was removed; change to another folder") from None
    if _OWN_TREE in os.environ or not (package / "__main__.py").is_file():
        return
    if package.resolve() != Path(__file__).resolve().parents[1]:
        before = os.environ.get("PYTHONPATH")
        path = str(package.parent) if before is None else f"{package.parent}{os.pathsep}{before}"
        environment = {**os.environ, _OWN_TREE: "1", "PYTHONPATH": path}
        os.execve(sys.executable, [sys.executable, "-P", "-m", "isoscope", *sys.argv[1:]], environment)


def starter() -> int | None:
    """Return the pid of the nearest ancestor that is not a shell; None without /proc."""
    pid = os.getppid()
    while pid > 1:
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        name, _, rest = text.partition("(")[2].rpartition(")")
        if name not in ("sh", "bash", "dash", "zsh", "ksh"):
            return pid
        pid = int(rest.split()[1])
    return None


def die_with(pid: int | None, *, group: bool = False) -> None:
    """When process `pid` ends, send SIGTERM to this process (or its `group`), and SIGKILL three seconds later.

    Otherwise a stage would continue after its DVC was killed, and write at the same time as its successor. Linux only
    (pidfd); elsewhere it does nothing.
    """
    if pid is None or not hasattr(os, "pidfd_open"):
        return
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:  # it has already ended
        _end(group)
        return

    def watch() -> None:
        select.select([descriptor], [], [])
        _end(group)

    threading.Thread(target=watch, name="die-with-parent", daemon=True).start()


def end_with_parent(number: int, parent: int | None = None) -> None:
    """Send this process a signal when its parent ends, also if the parent is killed. Linux only.

    `parent`: pid of the parent; exit at once if it has ended before this call.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, number)  # PR_SET_PDEATHSIG
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def _end(group: bool) -> None:
    with contextlib.suppress(OSError):
        print(f"isoscope: the parent process has ended: stopping (pid {os.getpid()})", file=sys.stderr)
    receiver = 0 if group else os.getpid()  # 0: this process's group
    os.kill(receiver, signal.SIGTERM)
    time.sleep(3)
    os.kill(receiver, signal.SIGKILL)


def rank() -> int:
    """Return the rank; 0 for a single process. Only rank 0 writes and prints."""
    return _number("RANK", 0) if world_size() > 1 else 0


def world_size() -> int:
    """Return the world size.

    Raises `InputError` if `accelerate launch` starts a single process although several were requested, as on a CPU.
    """
    asked_in_vain = "ACCELERATE_MIXED_PRECISION" in os.environ and "MASTER_PORT" in os.environ
    if asked_in_vain and "RANK" not in os.environ:
        raise InputError(
            "accelerate launch started one process although several were requested; add --multi_gpu, also on a CPU: "
            "accelerate launch --multi_gpu --num_processes 2 -m isoscope train …"
        )
    return _number("WORLD_SIZE", 1)


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdecimal():
        raise InputError(f"{name}={text!r} in the environment: expected a number, as torchrun sets it; unset it")
    return int(text)
