"""Real stores for the mirror: SQLite and PostgreSQL; all tests share one MLflow server."""

import shutil
from pathlib import Path

import pytest

from isoscope.platform.mirror.mlflow import Server, connect
from mlflow_server import empty_database, mlflow_server, running_server  # noqa: F401 - fixtures
from postgres import postgres, running_postgres  # noqa: F401 - fixtures


@pytest.fixture
def project(tmp_path: Path, empty_database: Path) -> Path:  # noqa: F811
    """A project's root with an empty MLflow database."""
    root = tmp_path / "project"
    root.mkdir()
    shutil.copyfile(empty_database, root / "mlflow.db")
    return root


@pytest.fixture
def server(project: Path) -> Server:
    """The project's database, as a mirror connects to it."""
    return connect(None, project)
