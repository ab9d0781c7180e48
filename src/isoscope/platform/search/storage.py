"""Storage of studies: SQLite for one machine or PostgreSQL for many; wait while it is away."""

import logging
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError

from isoscope.base.errors import InputError
from isoscope.platform.executor.cluster import Cluster
from isoscope.platform.runs.secrets import scrub
from isoscope.platform.search.leases import FileLeases, Leases, PostgresLeases

VARIABLE = "ISOSCOPE_SEARCH"
"""Environment variable with the address of the storage; --storage overrides it."""
PATIENCE = 600.0
"""Seconds to wait for a storage that does not answer."""
AWAY = (StorageInternalError, OperationalError)
"""Exceptions of a storage that is away."""
Returned = TypeVar("Returned")


class Place(NamedTuple):
    """A storage: `url` as Optuna takes it, and the folder of locks and logs on this machine."""

    url: URL
    folder: Path

    @property
    def shown(self) -> str:
        """The address without its password, also where that is in the query."""
        return _shown(self.url)

    @property
    def exists(self) -> bool:
        """Whether it may hold studies: a server, or an existing file."""
        return self.url.get_backend_name() != "sqlite" or Path(self.url.database or "").exists()

    def leases(self, study: str) -> Leases:
        """The locks of a study."""
        if self.url.get_backend_name() == "sqlite":
            file = Path(self.url.database or "").resolve()
            return FileLeases(file.with_name(f"{file.name}.leases") / study)
        plain = self.url.set(drivername="postgresql")
        return PostgresLeases(plain.render_as_string(hide_password=False), study)


def place(url: str | None, folder: Path) -> Place:
    """The storage at `url` (None: a SQLite file in `folder`). Raises `InputError` for an invalid address."""
    folder.mkdir(parents=True, exist_ok=True)
    expected = "expected sqlite:///FILE or postgresql://HOST/DATABASE"  # without the address: it may hold a password
    try:
        known = make_url(url or f"sqlite:///{folder / 'studies.db'}")
        backend = known.get_backend_name()
    except (ArgumentError, ValueError):
        raise InputError(f"--storage: invalid address; {expected}") from None
    if backend not in ("sqlite", "postgresql") or not known.database or known.database == ":memory:":
        raise InputError(f"storage {_shown(known)!r}: {expected}")
    if backend == "sqlite":
        path = Path(known.database)
        if not path.parent.is_dir():
            raise InputError(f"storage {known.database!r}: no folder {path.parent}; create it first")
        if path.exists() and not _of_sqlite(path):
            raise InputError(f"storage {known.database!r}: not a SQLite database")
        folder = path.resolve().parent if url else folder
    return Place(known.set(drivername="postgresql+psycopg") if backend == "postgresql" else known, folder)


def check_shared(where: Place, cluster: Cluster) -> None:
    """Raises `InputError` for a storage that the nodes of a cluster cannot share."""
    if cluster.address != "local" and where.url.get_backend_name() != "postgresql":
        raise InputError(
            f"--cluster {cluster.address}: storage {where.shown} is a file on one machine; "
            "use --storage postgresql://HOST/DATABASE (only --cluster local can use a file)"
        )


def _shown(url: URL) -> str:
    return scrub(url.render_as_string(hide_password=True))


def _of_sqlite(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(15) in (b"", b"SQLite format 3")


def connect(where: Place, *, known: bool = False) -> RDBStorage:
    """Open the storage; `known`: skip the check of its tables. Raises `InputError` if it does not answer."""
    optuna.logging.set_verbosity(logging.WARNING)
    # No ping before each use of PostgreSQL: `persist` handles a lost connection.
    sqlite = where.url.get_backend_name() == "sqlite"
    try:
        return RDBStorage(
            where.url.render_as_string(hide_password=False),
            engine_kwargs={"connect_args": {"timeout": 60, "factory": _Ahead}} if sqlite else {},
            skip_compatibility_check=known,
            skip_table_creation=known,
        )
    except ImportError as error:
        raise InputError(
            f"storage {where.shown}: {error.name} is missing; run: pip install 'isoscope[postgresql]'"
        ) from None
    except (SQLAlchemyError, StorageInternalError, RuntimeError) as error:
        raise InputError(f"storage {where.shown}: cannot be opened ({in_line(error)})") from None


class _Ahead(sqlite3.Connection):
    """SQLite with a write-ahead log: readers never wait, and a change is one append instead of two disk syncs.

    A killed process loses nothing committed; a power cut may lose the last changes, each whole. Dispose the engine
    before a fork: a child that inherits a connection would believe that it holds its parent's locks.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.execute("PRAGMA journal_mode = WAL")
        self.execute("PRAGMA synchronous = NORMAL")


def persist(
    call: Callable[[], Returned], what: str, say: Callable[[str], None], *, look: Callable[[], None] = lambda: None
) -> Returned:
    """`call()`, retried while the storage is away. Raises `InputError` after ten minutes.

    `look` is called between retries; an exception from it ends the wait.
    """
    began, pause = time.monotonic(), 0.0
    while True:
        try:
            found = call()
        except AWAY as error:
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


def in_line(error: Exception) -> str:
    """An error as one line."""
    return scrub(" ".join(str(error.__cause__ or error).split()))[:200]
