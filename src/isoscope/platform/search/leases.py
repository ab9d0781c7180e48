"""Leases on trials: locks that end with their holder, in files next to SQLite or in PostgreSQL sessions.

No clocks, no heartbeats: a lock is free as soon as its process ends, and never before.
"""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optuna.exceptions import StorageInternalError

from isoscope.platform.runs.locks import flock, opened

TURN = -1
"""Number of the lock for reading and changing the list of trials."""
BASELINE = -2
"""Number of the lock for the runs of the default arm."""


@contextmanager
def turn(leases: "Leases") -> Iterator[None]:
    """Be the only worker that reads and changes the list of trials."""
    leases.take(TURN, wait=True)
    try:
        yield
    finally:
        leases.release(TURN)


class FileLeases:
    """Locks of the kernel (flock) on files in `folder`: for the processes of one machine."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._files: dict[int, int] = {}

    def take(self, number: int, *, wait: bool = False) -> bool:
        """Take a lock if it is free, or wait for it; return whether this process holds it."""
        if number not in self._files:
            descriptor = opened(self.folder / f"{number}.lock")
            try:
                flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), self.folder)
            except BlockingIOError:
                os.close(descriptor)
                return False
            self._files[number] = descriptor
        return True

    def release(self, number: int) -> None:
        """Release a lock."""
        if number in self._files:
            fcntl.flock(self._files[number], fcntl.LOCK_UN)  # even if a child process still has the file open
            os.close(self._files.pop(number))

    def held(self, number: int) -> bool:
        """Whether a taken lock is still held."""
        return number in self._files

    def close(self) -> None:
        """Release all."""
        for number in list(self._files):
            self.release(number)


class PostgresLeases:
    """Advisory locks of a PostgreSQL session, with the methods of `FileLeases`, for workers on any machine.

    A session ends with its process, or half a minute after the server last heard from its machine.
    """

    def __init__(self, url: str, study: str) -> None:
        self.url = url
        self._class = int.from_bytes(hashlib.sha256(study.encode()).digest()[:4], "big", signed=True)
        self._taken: dict[int, bool] = {}
        """Taken locks → whether they are held: a lost connection loses them all."""
        self._connection: Any = None

    def take(self, number: int, *, wait: bool = False) -> bool:
        kind = "pg_advisory_lock(%s, %s) IS NOT NULL" if wait else "pg_try_advisory_lock(%s, %s)"
        held = self._taken.get(number, False)  # PostgreSQL counts: a second lock needs a second release
        if not held and self._ask(f"SELECT {kind}", number):
            held = self._taken[number] = True
        return held

    def release(self, number: int) -> None:
        self._taken.pop(number, None)
        with contextlib.suppress(StorageInternalError):  # a lock ends with its session
            self._ask("SELECT pg_advisory_unlock(%s, %s)", number)

    def held(self, number: int) -> bool:
        """Whether a taken lock is still held; a lock lost with its connection is taken again if it is free.

        Raises `StorageInternalError` while the storage is away.
        """
        self._ask("SELECT %s::int IS NOT NULL AND %s::int IS NOT NULL", 0)
        return number in self._taken and self.take(number)

    def close(self) -> None:
        self._taken.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, statement: str, number: int) -> bool:
        import psycopg

        try:
            if self._connection is None:
                self._connection = psycopg.connect(self.url, autocommit=True, connect_timeout=10)
                for name, value in {"idle": 10, "interval": 5, "count": 4}.items():  # the server's defaults are hours
                    self._connection.execute(f"SET tcp_keepalives_{name} = {value}")
            row = self._connection.execute(statement, (self._class, number)).fetchone()
        except psycopg.OperationalError as error:
            self._connection = None
            self._taken = dict.fromkeys(self._taken, False)
            raise StorageInternalError(str(error)) from error
        return bool(row and row[0])


Leases = FileLeases | PostgresLeases
"""Locks of one study, by trial number."""
