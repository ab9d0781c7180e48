"""A PostgreSQL and an MLflow server for the search tests."""

from collections.abc import Iterator

import pytest

from mlflow_server import empty_database, mlflow_server, running_server  # noqa: F401 - fixtures
from postgres import postgres, running_postgres  # noqa: F401 - fixtures
from search_under_way import kill_all


@pytest.fixture(autouse=True)
def no_search_left_running() -> Iterator[None]:
    """A process that a failed test leaves behind would warn in another test."""
    yield
    kill_all()
