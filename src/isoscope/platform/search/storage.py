"""Storage of studies: SQLite for one machine or PostgreSQL for many; wait while it is away; one lock for each study.

The lock is of the kernel, in a file next to SQLite, or of a session of PostgreSQL. It ends with its holder, however
that ends: no clocks, no heartbeats.
"""

import hashlib
import logging
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.util import register_after_fork
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError

from isoscope.base.errors import InputError
from isoscope.platform.runs.locks import HeldError, Lease
from isoscope.platform.runs.secrets import scrub

PATIENCE = 600.0
"""Seconds to wait for a storage that does not answer."""
TROUBLE = (StorageInternalError, SQLAlchemyError)
"""Exceptions of a storage that is away or damaged."""
_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_PROTOCOL")
_CURE = "restore it, or move it away: a new study starts from reports/search, and finished runs are found again"
_TAKE = "SELECT pg_try_advisory_lock(%s)"
_HOLDER = """SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND (classid::bigint << 32 | objid::bigint) = %s"""

Returned = TypeVar("Returned")


class Place(NamedTuple):
    """A storage: `url` as Optuna takes it, and the folder of locks and logs on this machine."""

    url: URL
    folder: Path

    @property
    def shown(self) -> str:
        """The address without its password, also where that is in the query."""
        return scrub(self.url.render_as_string(hide_password=True))

    @property
    def exists(self) -> bool:
        """Whether it may hold studies: a server, or an existing file."""
        return self.url.get_backend_name() != "sqlite" or Path(self.url.database or "").exists()


def place(url: str | None, folder: Path) -> Place:
    """The storage at `url` (None: a SQLite file in `folder`). Raises `InputError` for an invalid address."""
    folder.mkdir(parents=True, exist_ok=True)
    expected = "expected sqlite:///FILE or postgresql://HOST/DATABASE"  # without the address: it may hold a password
    try:
        known = make_url(url) if url else URL.create("sqlite", database=str(folder / "studies.db"))
        backend = known.get_backend_name()
    except (ArgumentError, ValueError):
        raise InputError(f"--storage: invalid address; {expected}") from None
    if backend not in ("sqlite", "postgresql") or not known.database or known.database == ":memory:":
        raise InputError(f"storage {Place(known, folder).shown!r}: {expected}")
    if backend == "sqlite":
        path = Path(known.database)
        if not path.parent.is_dir():
            raise InputError(f"storage {known.database!r}: no folder {path.parent}; create it first")
        if path.exists() and not _of_sqlite(path):
            raise InputError(f"storage {known.database!r}: not a SQLite database")
        folder = path.resolve().parent if url else folder
    return Place(known.set(drivername="postgresql+psycopg") if backend == "postgresql" else known, folder)


def _of_sqlite(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(15) in (b"", b"SQLite format 3")


def connect(where: Place) -> RDBStorage:
    """Open the storage. Raises `InputError` if it does not answer, or if it is a damaged file."""
    optuna.logging.set_verbosity(logging.ERROR)
    # No ping before each use of PostgreSQL: `persist` handles a lost connection.
    sqlite = where.url.get_backend_name() == "sqlite"
    try:
        if sqlite and where.exists:
            _check_whole(where)
        return RDBStorage(
            where.url.render_as_string(hide_password=False),
            engine_kwargs={"connect_args": {"timeout": 60, "factory": _Ahead}} if sqlite else {},
        )
    except ImportError as error:
        raise InputError(
            f"storage {where.shown}: {error.name} is missing; run: pip install 'isoscope[postgresql]'"
        ) from None
    except TROUBLE as error:
        raise refusal(f"storage {where.shown}", error) from None
    except RuntimeError as error:  # of another version of Optuna
        raise InputError(f"storage {where.shown}: cannot be opened ({in_line(error)})") from None


def _check_whole(where: Place) -> None:
    """Raise `InputError` if a SQLite file is damaged: before work on its trials begins."""
    with closing(sqlite3.connect(str(where.url.database), timeout=60)) as connection:
        try:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise refusal(f"storage {where.shown}", error) from None
    if found != "ok":
        raise refusal(f"storage {where.shown}", ValueError(found))


class _Ahead(sqlite3.Connection):
    """SQLite with a write-ahead log: readers never wait, and a change is one append instead of two disk syncs.

    A killed process loses nothing committed; a power cut may lose the last changes, each whole.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.execute("PRAGMA journal_mode = WAL")
        self.execute("PRAGMA synchronous = NORMAL")


def persist(
    call: Callable[[], Returned], what: str, say: Callable[[str], None], *, look: Callable[[], None] = lambda: None
) -> Returned:
    """`call()`, retried while the storage is away. Raises `InputError` after ten minutes, and if it is damaged.

    `look` is called between retries; an exception from it ends the wait.
    """
    began, pause = time.monotonic(), 0.0
    while True:
        try:
            found = call()
        except TROUBLE as error:
            if not _away(error):
                raise refusal(what, error) from None
            if time.monotonic() - began > PATIENCE:
                raise InputError(f"{what}: no answer for {PATIENCE / 60:.0f} minutes ({in_line(error)})") from None
            if not pause:
                say(f"{what} does not answer: waiting for it ({in_line(error)})")
            look()
            pause = min(2 * pause or 0.1, 5.0)
            time.sleep(pause)
        else:
            if pause:
                say(f"{what} is back")
            return found


def _away(error: Exception) -> bool:
    """Whether a storage may answer later: a server that restarts, a file that is locked, a full disk."""
    original = getattr(error.__cause__ or error, "orig", error)
    if isinstance(original, sqlite3.Error):
        return getattr(original, "sqlite_errorname", "").startswith(_BUSY)
    return isinstance(error, TROUBLE)


def refusal(what: str, error: Exception) -> InputError:
    """The error for a storage that is away, or that is damaged."""
    if _away(error):
        return InputError(f"{what}: cannot be opened ({in_line(error)})")
    return InputError(f"{what}: is damaged ({in_line(error)}); {_CURE}")


def in_line(error: Exception) -> str:
    """An error as one line."""
    return scrub(" ".join(str(error.__cause__ or error).split()))[:200]


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
