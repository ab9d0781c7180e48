"""Real stores for the mirror: SQLite and PostgreSQL; all tests share one MLflow server."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlflow_server import empty_database, mlflow_server, running_server  # noqa: F401 - fixtures
from postgres import PostgreSQL


@pytest.fixture
def project(tmp_path: Path, empty_database: Path) -> Path:  # noqa: F811
    """A project's root with an empty MLflow database."""
    root = tmp_path / "project"
    root.mkdir()
    shutil.copyfile(empty_database, root / "mlflow.db")
    return root


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """Yield the address of an empty database on a separate PostgreSQL server."""
    server = PostgreSQL()
    try:
        server.start()
        yield server.url
        server.stop()
    finally:
        server.remove()
