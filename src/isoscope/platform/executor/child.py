"""Run one piece of work in a forked process: imports are done already, and a crash ends only this process."""

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import NamedTuple

from isoscope.base.errors import InputError, RunError, card_trouble, disk_trouble, plugins_named
from isoscope.base.processes import StoppedError, end_with_parent

DONE, STOPPED, WRONG, FAILED = "done", "stopped", "wrong", "failed"
CRASHED, KILLED, LOST, CROWDED, CANCELLED = "crashed", "killed", "lost", "crowded", "cancelled"

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TEXT = 30_000
"""Bytes of text that a process tells at its end."""


class Ending(NamedTuple):
    """End of a process.

    `kind`: done; stopped (can resume); wrong (bad input: no retry); failed (a reported error); crashed
    (an unexpected error); killed by a signal; lost with its node; crowded (no memory left on its card);
    cancelled as a job. `text`: the result, one line, or a traceback.
    """

    kind: str
    text: str

    @property
    def line(self) -> str:
        """How it ended, in one line."""
        return "stopped by another process" if self.kind == STOPPED else self.text.strip().rpartition("\n")[2] or "?"


class Child:
    """A forked process that does `work`. Its output goes to `said()`.

    It has its own process group, so Ctrl-C does not reach it. It receives SIGTERM when its parent ends, however the
    parent ends.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        context = multiprocessing.get_context("fork")
        self._ended: Ending | None = None
        self._rest = b""
        self._pipe, theirs = context.Pipe(duplex=False)
        self._output, writer = os.pipe()
        os.set_blocking(self._output, False)
        self._process = context.Process(target=_run, args=(work, writer, theirs, os.getpid()))
        sys.stdout.flush()
        sys.stderr.flush()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # else its parent's handlers could get them
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.pid = self._process.pid
        theirs.close()
        os.close(writer)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Send it a signal."""
        if self._process.is_alive() and self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def ending(self, seconds: float) -> Ending | None:
        """Return how it ended, after a wait of at most `seconds`; None while it runs."""
        if self._ended is None:
            self._process.join(seconds)
            if self._process.exitcode is not None:
                self._ended = self._read(self._process.exitcode)
        return self._ended

    def _read(self, code: int) -> Ending:
        try:
            told = self._pipe.recv() if self._pipe.poll() else None
        except (EOFError, OSError):  # killed before or while it told
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

    def said(self) -> list[str]:
        """Return the lines it has printed since the last call; after its end, all remaining lines."""
        while True:
            try:
                more = os.read(self._output, 65536)
            except BlockingIOError:
                break
            if not more:
                self._rest += b"\n" if self._rest and not self._rest.endswith(b"\n") else b""
                break
            self._rest += more
        *lines, self._rest = self._rest.split(b"\n")
        return [line.decode("utf-8", "replace") for line in lines]

    def close(self) -> None:
        """Release its output."""
        os.close(self._output)


def _run(work: Callable[[], object], writer: int, pipe: Connection, parent: int) -> None:
    os.setpgid(0, 0)
    end_with_parent(signal.SIGTERM, parent)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    for stream in (1, 2):
        os.dup2(writer, stream)
    os.close(writer)
    sys.stdout, sys.stderr = (os.fdopen(stream, "w", 1, "utf-8", closefd=False) for stream in (1, 2))
    try:
        with plugins_named():
            ending = Ending(DONE, str(work() or ""))
    except StoppedError as error:
        ending = Ending(STOPPED, str(error))
    except InputError as error:
        ending = Ending(WRONG, str(error))
    except RunError as error:
        ending = Ending(FAILED, str(error))
    except Exception as error:
        full = card_trouble(error)
        ending = Ending(CROWDED, full) if full else Ending(CRASHED, disk_trouble(error) or traceback.format_exc())
    with suppress(BrokenPipeError):  # the parent is gone
        sys.stdout.flush()
        sys.stderr.flush()
    # At most what a pipe buffers: the parent reads after the end.
    pipe.send((ending.kind, ending.text.encode("utf-8", "replace")[-_TEXT:].decode("utf-8", "ignore")))
    os._exit(0)  # skips the parent's exit handlers
