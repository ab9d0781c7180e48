"""A PostgreSQL server for a test, run by a user other than root."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlflow_server import free_port


class PostgreSQL:
    """A server with an empty database at `url`; it can be stopped and started again. Skips where none is installed."""

    def __init__(self) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        initdb = shutil.which("initdb") or (str(found[-1]) if found else None)
        if initdb is None or not Path(initdb).resolve().with_name("pg_ctl").exists():
            pytest.skip("PostgreSQL (initdb, pg_ctl) is not installed")
        self._binaries = Path(initdb).resolve().parent
        self._user = _user()
        self.folder = Path(tempfile.mkdtemp(prefix="isoscope-postgresql-"))
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self.port = free_port()
        self._call("initdb", "-A", "trust", "-U", "tests", "--no-sync")

    @property
    def url(self) -> str:
        """Return its address in SQLAlchemy's form."""
        return f"postgresql+psycopg://tests@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start, and wait until it answers."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder} -c fsync=off"
        self._call("pg_ctl", "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        """Stop at once, as a crash does."""
        self._call("pg_ctl", "-m", "immediate", "stop")

    def remove(self) -> None:
        """Leave nothing."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _call(self, program: str, *words: str) -> None:
        command = [str(self._binaries / program), "-D", str(self.folder / "data"), *words]
        subprocess.run(command, user=self._user, cwd=self.folder, check=True, stdout=subprocess.DEVNULL, timeout=600)


@pytest.fixture(scope="session")
def running_postgres() -> Iterator[PostgreSQL]:
    """A server for all tests that ask for `postgres`."""
    server = PostgreSQL()
    try:
        server.start()
        yield server
        server.stop()
    finally:
        server.remove()


@pytest.fixture
def postgres(running_postgres: PostgreSQL) -> PostgreSQL:
    """A PostgreSQL server with an empty database; a test may restart it."""
    import psycopg

    with psycopg.connect(running_postgres.url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return running_postgres


def _user() -> str | None:
    if os.geteuid() != 0:
        return None
    import pwd

    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"
