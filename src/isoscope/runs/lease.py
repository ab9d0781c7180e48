"""One owner per run: a lock that dies with its process, and a note that says who holds it."""

import fcntl
import json
import os
import socket
import time
from pathlib import Path

from isoscope.errors import InputError
from isoscope.sealing import announce


class HeldError(InputError):
    """Another process has the run."""


class Lease:
    """Exclusive right to write a run's folder, held as long as the process lives.

    The lock is the kernel's (flock), so a killed holder frees it at once; the file's text (host, boot id, pid, start
    time) only names the holder. Raises `HeldError` naming the holder where another process has it.
    """

    def __init__(self, folder: Path, *, title: str | None = None, note: bool = True) -> None:
        """`title`: what people call the run. `note`: leave the holder's name; without, nothing is written, so that it
        works on a full disk too.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "lease.json"
        # Not through a link: what it leads to would be overwritten.
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(self._descriptor, 4096, 0).decode("utf-8", "replace")
            os.close(self._descriptor)
            called = f"{title} ({folder.name[:12]})" if title else folder.name
            raise HeldError(f"{called}: this run is under way already: {_holder(text)}") from None
        self._noted = note
        if not note:
            return
        try:
            announce("lease", self.path)
            who = {"host": socket.gethostname(), "boot": _boot(), "pid": os.getpid(), "since": time.time()}
            written = os.pwrite(self._descriptor, json.dumps(who).encode(), 0)
            os.ftruncate(self._descriptor, written)  # after the new text: a dead owner's note outlives a full disk
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def release(self) -> None:
        """Give the right back."""
        if self._descriptor >= 0:
            if self._noted:
                os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1


def held(folder: Path) -> bool:
    """Whether a living process holds the lease of a run's folder."""
    try:
        with (folder / "lease.json").open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def left_behind(runs: Path) -> list[Path]:
    """Folders below `runs` whose last owner died before it could give the lease back."""
    return [path.parent for path in sorted(runs.glob("*/lease.json")) if path.stat().st_size and not held(path.parent)]


def _boot() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _holder(text: str) -> str:
    try:
        note = json.loads(text)
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(note["since"]))
        return f"held by process {note['pid']} on {note['host']} since {since}; wait for it or end it"
    except (ValueError, KeyError, TypeError, OverflowError):
        return "its holder has left no name"
