"""MLflow's tracking addresses: the project's own database, and any that a user gives. Imports no MLflow."""

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from isoscope.base.errors import InputError
from isoscope.platform.mirror.fields import LOCAL
from isoscope.platform.runs.secrets import scrub


def direct(uri: str) -> bool:
    """Return whether it is a database, not a server."""
    return not uri.startswith(("http", "databricks"))


def default_uri(root: Path, environment: Mapping[str, str] = os.environ) -> str:
    """Return $MLFLOW_TRACKING_URI, or a SQLite file in `root`."""
    return environment.get("MLFLOW_TRACKING_URI") or sqlite_uri(root.resolve() / LOCAL)


def sqlite_uri(database: Path) -> str:
    """Return the address of a SQLite file, also in a folder with `?` or `%41` in its name."""
    plain = f"sqlite:///{database}"
    if make_url(plain).database == str(database):
        return plain
    # With its driver: MLflow would make the folder of `sqlite:///` as the address spells it, quoted.
    return URL.create("sqlite+pysqlite", database=str(database)).render_as_string()


def located(uri: str, root: Path) -> tuple[str, Path | None]:
    """Return an address as MLflow takes it, and its file if it is of SQLite; a relative path is relative to `root`.

    Raises `InputError` for a malformed address, a folder in the place of a SQLite file, and a file store, which MLflow
    no longer supports.
    """
    if uri.startswith("file:") or ("://" not in uri and uri != "databricks"):
        raise _refusal(uri, "MLflow no longer supports folders of files")
    try:
        urlsplit(uri)
        given = Path(make_url(uri).database or "") if uri.startswith("sqlite") else None
    except (ArgumentError, ValueError):
        raise _refusal(uri, "is not an address") from None
    if given is None:
        return uri, None
    database = root / given
    if database.exists() and not database.is_file():
        raise _refusal(uri, f"{database} is not a file")
    options = "".join(uri.partition("?")[1:])
    return uri if given.is_absolute() else sqlite_uri(database) + options, database


def _refusal(uri: str, why: str) -> InputError:
    return InputError(
        f"MLFLOW_TRACKING_URI={scrub(uri)}: {why}; unset it, or give sqlite:///mlflow.db or http://host:port"
    )
