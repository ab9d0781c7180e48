"""Where studies are kept: SQLite on this machine or PostgreSQL for many, and what is done while it is away."""

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError

from isoscope.errors import InputError
from isoscope.search.leases import FileLeases, Leases, PostgresLeases

VARIABLE = "ISOSCOPE_SEARCH"
"""Names the storage of every search, unless --storage does."""
PATIENCE = 600.0
"""Seconds that a storage may be away."""
Returned = TypeVar("Returned")


class Place(NamedTuple):
    """Where studies are kept: `url` as Optuna takes it, and the folder of locks and logs on this machine."""

    url: URL
    folder: Path

    @property
    def shown(self) -> str:
        """The address without its password."""
        return self.url.render_as_string(hide_password=True)

    @property
    def exists(self) -> bool:
        """Whether it may hold studies: a server, or a file that is there."""
        return self.url.get_backend_name() != "sqlite" or Path(self.url.database or "").exists()

    def leases(self, study: str) -> Leases:
        """The locks of a study."""
        if self.url.get_backend_name() == "sqlite":
            file = Path(self.url.database or "").resolve()
            return FileLeases(file.with_name(f"{file.name}.leases") / study)
        plain = self.url.set(drivername="postgresql")
        return PostgresLeases(plain.render_as_string(hide_password=False), study)


def place(url: str | None, folder: Path) -> Place:
    """The storage at `url` (None: a SQLite file in `folder`). Raises `InputError` for what is no such address."""
    folder.mkdir(parents=True, exist_ok=True)
    expected = "expected sqlite:///FILE or postgresql://HOST/DATABASE"  # what is wrong may hold a password
    try:
        known = make_url(url or f"sqlite:///{folder / 'studies.db'}")
        backend = known.get_backend_name()
    except (ArgumentError, ValueError):
        raise InputError(f"--storage: no such address; {expected}") from None
    if backend not in ("sqlite", "postgresql") or not known.database or known.database == ":memory:":
        raise InputError(f"storage {known.render_as_string(hide_password=True)!r}: {expected}")
    if backend == "sqlite":
        path = Path(known.database)
        if not path.parent.is_dir():
            raise InputError(f"storage {known.database!r}: {path.parent} is no folder; make it first")
        if path.exists() and not _of_sqlite(path):
            raise InputError(f"storage {known.database!r}: is no SQLite database")
        folder = path.resolve().parent if url else folder
    return Place(known.set(drivername="postgresql+psycopg") if backend == "postgresql" else known, folder)


def _of_sqlite(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(15) in (b"", b"SQLite format 3")


def connect(where: Place, *, known: bool = False) -> RDBStorage:
    """Optuna's storage there; `known`: its tables were looked at. Raises `InputError` where it does not answer."""
    optuna.logging.set_verbosity(logging.WARNING)
    sqlite = where.url.get_backend_name() == "sqlite"
    # No ping before each use of PostgreSQL: a connection that was lost is an outage, which is waited for (`persist`).
    options: dict[str, Any] = {"connect_args": {"timeout": 60, "factory": _Ahead}} if sqlite else {}
    try:
        return RDBStorage(
            where.url.render_as_string(hide_password=False),
            engine_kwargs=options,
            skip_compatibility_check=known,
            skip_table_creation=known,
        )
    except ImportError as error:
        raise InputError(
            f"storage {where.shown}: {error.name} is missing; pip install 'isoscope[postgresql]'"
        ) from None
    except (SQLAlchemyError, StorageInternalError, RuntimeError) as error:
        raise InputError(f"storage {where.shown}: does not open ({in_line(error)})") from None


class _Ahead(sqlite3.Connection):
    """SQLite with a write-ahead log: who reads waits for nobody, and a change costs an append, not two waits for disks.

    Nothing committed is lost with a process; with the power, the last changes may be, and none is half there. A process
    that is forked must find no connection (`engine.dispose`): it would believe it held the locks of its parent's.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.execute("PRAGMA journal_mode = WAL")
        self.execute("PRAGMA synchronous = NORMAL")


@contextmanager
def visited(where: Place) -> Iterator[RDBStorage]:
    """The storage there, its connections closed at the end. Raises `InputError` where it does not answer."""
    storage = connect(where)
    try:
        yield storage
    finally:
        storage.engine.dispose()


def away() -> tuple[type[Exception], ...]:
    """What a storage raises while it is away."""
    known: list[type[Exception]] = [StorageInternalError, OperationalError]
    if find_spec("psycopg"):
        from psycopg import OperationalError as Away

        known.append(Away)
    return tuple(known)


def persist(
    call: Callable[[], Returned], what: str, say: Callable[[str], None], *, look: Callable[[], None] = lambda: None
) -> Returned:
    """`call()`, again and again while the storage is away, for ten minutes at most. Raises `InputError` then.

    `look` is called in between; what it raises ends the waiting.
    """
    began, pause, told = time.monotonic(), 0.1, False
    while True:
        try:
            found = call()
        except away() as error:
            if time.monotonic() - began > PATIENCE:
                raise InputError(f"{what}: has been away for {PATIENCE / 60:.0f} minutes ({in_line(error)})") from None
            if not told:
                say(f"{what} does not answer: waiting for it ({in_line(error)})")
            told = True
            look()
            time.sleep(pause)
            pause = min(2 * pause, 5.0)
            continue
        if told:
            say(f"{what} is back")
        return found


def in_line(error: Exception) -> str:
    """What went wrong, in one line."""
    return " ".join(str(error.__cause__ or error).split())[:200]
