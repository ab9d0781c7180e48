"""Run one piece of work in a forked process: imports are done already, and a crash ends only this process."""

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from isoscope.errors import InputError, RunError, plugins_named
from isoscope.guard import StoppedError, end_with_parent

DONE, STOPPED, WRONG, FAILED = "done", "stopped", "wrong", "failed"
CRASHED, KILLED = "crashed", "killed"

_TEXT = 30_000


class Ending(NamedTuple):
    """How a process ended.

    `kind`: done; stopped (can resume); wrong (bad input: a retry does not help); failed (a reported error); killed by
    a signal; crashed (an unexpected error). `text`: one line or a traceback.
    """

    kind: str
    text: str


class Child:
    """A forked process that runs `work` and writes its output to `log`.

    It has its own process group, so Ctrl-C does not reach it. It receives SIGTERM when its parent ends, however the
    parent ends.
    """

    def __init__(self, work: Callable[[], None], log: Path | None = None) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe(duplex=False)
        self._ended: Ending | None = None
        self._process = context.Process(target=_run, args=(work, log, theirs, os.getpid()))
        self._process.start()
        theirs.close()
        self.pid = self._process.pid

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Send it a signal."""
        if self._process.is_alive() and self.pid is not None:
            os.kill(self.pid, number)

    def ending(self, seconds: float) -> Ending | None:
        """How it ended, after a wait of at most `seconds`; None while it runs."""
        if self._ended is not None:
            return self._ended
        self._process.join(seconds)
        if self._process.exitcode is not None:
            self._ended = self._read(self._process.exitcode)
        return self._ended

    def _read(self, code: int) -> Ending:
        try:
            told = self._pipe.recv() if self._pipe.poll() else None
        except EOFError:
            told = None
        self._pipe.close()
        if told is not None:
            return Ending(*told)
        if code == -signal.SIGTERM:
            return Ending(STOPPED, "stopped before it started")
        if code < 0:
            name = signal.Signals(-code).name
            return Ending(KILLED, f"its process ended by signal {-code} ({name}), probably out of memory")
        return Ending(CRASHED, f"its process ended by exit code {code}")


def _run(
    work: Callable[[], None], log: Path | None, pipe: "multiprocessing.connection.Connection", parent: int
) -> None:
    os.setpgid(0, 0)
    end_with_parent(signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)  # the parent ended before it could be watched
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    if log is not None:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for stream in (1, 2):
            os.dup2(descriptor, stream)
        os.close(descriptor)
    try:
        with plugins_named():
            work()
        ending = Ending(DONE, "")
    except StoppedError as error:
        ending = Ending(STOPPED, str(error))
    except InputError as error:
        ending = Ending(WRONG, str(error))
    except RunError as error:
        ending = Ending(FAILED, str(error))
    except Exception:
        ending = Ending(CRASHED, traceback.format_exc())
    if ending.text:
        print(ending.text, file=sys.stderr, flush=True)
    pipe.send((ending.kind, ending.text[-_TEXT:]))  # at most what a pipe buffers: the parent reads after the end
    sys.stdout.flush()
    os._exit(0)  # skips the parent's exit handlers
