"""Errors of MLflow, of its database, its server and its artifact store, in one line each. Imports no MLflow."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from filelock import Timeout as LockTimeout

from isoscope.base.errors import InputError
from isoscope.platform.runs.secrets import scrub

# MLflow's error codes for failures of the server or its database, not of the request.
_OUTAGES = ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED")


class UnreachableError(Exception):
    """MLflow is unreachable, slow, full or read-only: the same request may succeed later."""


class RefusedError(Exception):
    """MLflow refuses the request."""


class ConflictError(RefusedError):
    """Another process has written the same meanwhile: compare with MLflow and try again."""


# In a database's or MLflow's text: a row that exists already, or a run or model that another process has deleted.
_CONFLICTS = re.compile(
    "IntegrityError|UniqueViolation|UNIQUE constraint|Duplicate entry|must be in the 'active' state|"
    "Logged model with ID '.*' not found"
)
# Names of urllib3's classes around the reason.
_NOISE = re.compile(r"""\w+(?:Error|Disconnected)\(|HTTPS?Connection(?:Pool)?\([^)]*\): |["']|\)+$""")
SCHEMA = "out-of-date database schema"
"""In MLflow's text, if another version of MLflow has written a database; also if that version is newer."""


@contextmanager
def trouble() -> Iterator[None]:
    """Convert errors to `UnreachableError`, `ConflictError` or `RefusedError`, in one line.

    Raises `InputError` if the server refuses user and password: it refuses every record.
    """
    try:
        yield
    except (UnreachableError, RefusedError, InputError):
        raise
    except LockTimeout as error:
        raise UnreachableError(f"another process holds the lock {error.lock_file}") from error
    except Exception as error:
        if getattr(error, "error_code", None) == "UNAUTHENTICATED":
            raise InputError(
                "the MLflow server refuses user and password (401): set MLFLOW_TRACKING_USERNAME and "
                "MLFLOW_TRACKING_PASSWORD; what is not sent now, isoscope mirror sends later"
            ) from error
        raise _kind(error)(_line(error)) from error


def _kind(error: Exception) -> type[UnreachableError | RefusedError]:
    if _CONFLICTS.search(str(error)):
        return ConflictError
    library = type(error).__module__.split(".")[0]
    if library == "mlflow":
        return UnreachableError if getattr(error, "error_code", None) in _OUTAGES else RefusedError
    away = isinstance(error, OSError) or library in ("sqlalchemy", "requests", "urllib3", "alembic")
    return UnreachableError if away else RefusedError


def _line(error: Exception) -> str:
    # SQLAlchemy: keep the part before the statement. urllib3: keep the innermost cause, without names of its classes.
    text = " ".join(str(error).split()).partition(" [SQL: ")[0].partition(" (Background on")[0]
    _, inside, cause = text.rpartition("(Caused by ")
    return scrub(_NOISE.sub("", cause)[:300] if inside else f"{type(error).__name__}: {text[:300]}")


@contextmanager
def storing(where: str) -> Iterator[None]:
    """Convert any error of an artifact store to `RefusedError`: it concerns this run's files, not its numbers.

    A conflict with another process is raised as it is.
    """
    try:
        yield
    except Exception as error:
        if _CONFLICTS.search(str(error)):
            raise
        client = f"; install its client: pip install {error.name}" if isinstance(error, ModuleNotFoundError) else ""
        raise RefusedError(
            f"its numbers are in MLflow, its artifacts cannot be stored in {scrub(where)} ({_line(error)}){client}"
        ) from error
