"""A PostgreSQL and an MLflow server for the search tests."""

from collections.abc import Iterator

import pytest

from mlflow_server import empty_database, mlflow_server, running_server  # noqa: F401 - fixtures
from postgres import PostgreSQL
from search_under_way import kill_all


@pytest.fixture(autouse=True)
def no_search_left_running() -> Iterator[None]:
    """A process that a failed test leaves behind would warn in another test."""
    yield
    kill_all()


@pytest.fixture(scope="session")
def running_postgres() -> Iterator[PostgreSQL]:
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
