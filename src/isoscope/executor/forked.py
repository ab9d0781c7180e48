"""A process forked for one piece of work: all that is imported is there, and whatever it does ends with it."""

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import NamedTuple

from isoscope.errors import InputError, RunError, disk_trouble, plugins_named
from isoscope.guard import StoppedError, end_with_parent

DONE, STOPPED, FAILED, KILLED = "done", "stopped", "failed", "killed"

_TEXT = 30_000


class Ending(NamedTuple):
    """How a process ended: done; stopped, so that it can go on; failed; or killed by a signal. `text`: what came of it,
    or why.
    """

    kind: str
    text: str


class Forked:
    """A process that does `work`; what it prints can be read from `said`.

    It is no part of the terminal's group, so Ctrl-C does not reach it; when the process that started it ends, however
    that ends, it is told to stop.
    """

    def __init__(self, work: Callable[[], str]) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe(duplex=False)
        self._said, writer = os.pipe()
        os.set_blocking(self._said, False)
        self._rest = b""
        self._process = context.Process(target=_run, args=(work, writer, theirs, os.getpid()))
        sys.stdout.flush()
        sys.stderr.flush()
        self._process.start()
        theirs.close()
        os.close(writer)

    @property
    def pid(self) -> int | None:
        """Its number."""
        return self._process.pid

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Send it a signal."""
        if self._process.is_alive() and self.pid is not None:
            os.kill(self.pid, number)

    def ending(self, seconds: float) -> Ending | None:
        """How it ended, waiting so long; None while it lives."""
        self._process.join(seconds)
        code = self._process.exitcode
        if code is None:
            return None
        try:
            told = self._pipe.recv() if self._pipe.poll() else None
        except EOFError:
            told = None
        if told is not None:
            return Ending(*told)
        if code == -signal.SIGTERM:
            return Ending(STOPPED, "told to stop before it could begin")
        if code < 0:
            name = signal.Signals(-code).name
            return Ending(KILLED, f"its process ended by signal {-code} ({name}), probably out of memory")
        return Ending(FAILED, f"its process ended by exit code {code}")

    def said(self) -> list[str]:
        """The lines it has printed since the last call; at its end, all of them."""
        while True:
            try:
                more = os.read(self._said, 65536)
            except BlockingIOError:
                break
            if not more:
                more = b"" if not self._rest or self._rest.endswith(b"\n") else b"\n"
                self._rest += more
                break
            self._rest += more
        *lines, self._rest = self._rest.split(b"\n")
        return [line.decode("utf-8", "replace") for line in lines]

    def close(self) -> None:
        """Let go of what was held of it."""
        self._pipe.close()
        os.close(self._said)


def _run(work: Callable[[], str], writer: int, pipe: Connection, parent: int) -> None:
    os.setpgid(0, 0)
    end_with_parent(signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)  # it ended before it could be watched
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    for stream in (1, 2):
        os.dup2(writer, stream)
    sys.stdout, sys.stderr = (os.fdopen(stream, "w", 1, "utf-8", closefd=False) for stream in (1, 2))
    try:
        with plugins_named():
            ending = Ending(DONE, work())
    except StoppedError as error:
        ending = Ending(STOPPED, str(error))
    except (InputError, RunError) as error:
        ending = Ending(FAILED, str(error))
    except Exception as error:
        ending = Ending(FAILED, disk_trouble(error) or traceback.format_exc())
    sys.stdout.flush()
    sys.stderr.flush()
    pipe.send((ending.kind, ending.text[-_TEXT:]))  # no more than a pipe holds: nobody reads before the end
    os._exit(0)  # nothing of the parent's is to be closed here
