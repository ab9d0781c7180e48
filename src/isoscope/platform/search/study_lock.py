"""The one lock of a study: of the kernel, in a file next to SQLite, or of a session of PostgreSQL.

It ends with its holder, however that ends: no clocks, no heartbeats.
"""

import hashlib
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.util import register_after_fork
from pathlib import Path
from typing import Any

from sqlalchemy.exc import OperationalError

from isoscope.platform.runs.locks import HeldError, Lease
from isoscope.platform.search.storage import Place

_TAKE = "SELECT pg_try_advisory_lock(%s)"
_HOLDER = """SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND (classid::bigint << 32 | objid::bigint) = %s"""


@contextmanager
def held(where: Place, study: str) -> Iterator[Callable[[], None]]:
    """Hold the lock of a study; yields a check that it is still held.

    Raises `HeldError`, which names the holder, if another process has it. The check raises it, too, if the connection
    was lost and another process has taken the lock since, and `OperationalError` while the database is away.
    """
    if where.url.get_backend_name() == "sqlite":
        file = Path(where.url.database or "").resolve()
        with Lease(file.with_name(f"{file.name}.locks") / study, title=f"search {study}"):
            yield lambda: None
        return
    with closing(_DatabaseLock(where, study)) as lock:
        lock.check()
        yield lock.check


class _DatabaseLock:
    """An advisory lock. Its session ends with its process, or half a minute after its machine was last heard of."""

    def __init__(self, where: Place, study: str) -> None:
        self.url = where.url.set(drivername="postgresql").render_as_string(hide_password=False)
        self.study, self._key = study, int.from_bytes(hashlib.sha256(study.encode()).digest()[:7])
        self._connection: Any = None
        register_after_fork(self, _DatabaseLock._leave)

    def check(self) -> None:
        import psycopg

        try:
            if self._connection is None:
                self._take(psycopg)
            else:
                self._connection.execute("SELECT 1")
        except psycopg.OperationalError as error:
            self._connection = None
            raise OperationalError("lock", None, error) from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take(self, psycopg: Any) -> None:
        here = f"process {os.getpid()} on {socket.gethostname()}"
        connection = psycopg.connect(self.url, autocommit=True, connect_timeout=10, application_name=here)
        for name, value in {"idle": 10, "interval": 5, "count": 4}.items():  # the server's defaults are hours
            connection.execute(f"SET tcp_keepalives_{name} = {value}")
        if not connection.execute(_TAKE, (self._key,)).fetchone()[0]:
            holder = connection.execute(_HOLDER, (self._key,)).fetchone()
            connection.close()
            by = (holder and holder[0]) or "another process"
            raise HeldError(f"search {self.study}: is already in progress: held by {by}; wait for it or end it")
        self._connection = connection

    def _leave(self) -> None:
        """Close the copy of the socket that a forked process has."""
        if self._connection is not None:
            os.close(self._connection.fileno())
