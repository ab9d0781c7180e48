"""Lease of a run: a lock that dies with its process, and a note that names the holder."""

import fcntl
import json
import os
import socket
import time
from contextlib import AbstractContextManager
from multiprocessing.util import register_after_fork
from pathlib import Path

from isoscope.base.atomic_files import announce
from isoscope.base.errors import InputError
from isoscope.platform.runs.locks import flock, opened


class HeldError(InputError):
    """Another process holds the run."""


class Lease(AbstractContextManager["Lease"]):
    """Exclusive right to write a run's folder, held while the process lives.

    It is a kernel lock (flock), so killing the holder frees it at once. The file's text (host, pid, start time) only
    names the holder. Raises `HeldError`, which names the holder, if another process has the lock.
    """

    def __init__(self, folder: Path, *, title: str | None = None, note: bool = True) -> None:
        """Take the lock. `title`: title of the run in errors. `note=False`: write nothing, for full disks."""
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "lease.json"
        self._descriptor = opened(self.path)
        try:
            flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, folder)
        except BlockingIOError:
            text = os.pread(self._descriptor, 4096, 0).decode("utf-8", "replace")
            os.close(self._descriptor)
            called = f"{title} ({folder.name[:12]})" if title else folder.name
            raise HeldError(f"{called}: this run is already in progress: {_holder(text)}") from None
        register_after_fork(self, Lease._close)
        self._noted = note
        if not note:
            return
        try:
            announce("lease", self.path)
            who = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.time()}
            written = os.pwrite(self._descriptor, json.dumps(who).encode(), 0)
            # After writing, so that a full disk does not erase a dead owner's note.
            os.ftruncate(self._descriptor, written)
        except BaseException:
            self._close()
            raise

    def __exit__(self, *exception: object) -> None:
        if self._noted:
            os.ftruncate(self._descriptor, 0)
        self._close()

    def _close(self) -> None:
        """Close the lock's file: at the end, and in a forked process, so that the lock ends with its own process."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def held(folder: Path) -> bool:
    """Return whether a live process holds the lease of a run's folder."""
    try:
        with (folder / "lease.json").open("r") as file:
            flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB, folder)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _holder(text: str) -> str:
    try:
        note = json.loads(text)
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(note["since"]))
        return f"held by process {note['pid']} on {note['host']} since {since}; wait for it or end it"
    except (ValueError, KeyError, TypeError, OverflowError):
        return "held by an unknown process"
