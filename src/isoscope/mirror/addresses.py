"""MLflow addresses without credentials, and noted experiment ids, so that the report can link to MLflow."""

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from isoscope.sealing import write_text

LOCAL = "mlflow.db"


def address(uri: str | None) -> str:
    """Return a tracking address without credentials: `uri`, or $MLFLOW_TRACKING_URI, or the project's database."""
    parts = urlsplit(uri or os.environ.get("MLFLOW_TRACKING_URI") or LOCAL)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def known_experiments(root: Path, uri: str | None) -> dict[str, str]:
    """Return name → id of the experiments noted for an address."""
    return _read(root).get(address(uri), {})


def note_experiment(root: Path, uri: str | None, name: str, known: str) -> None:
    """Note an experiment's id for an address."""
    notes = _read(root)
    here = notes.setdefault(address(uri), {})
    if here.get(name) != known:
        here[name] = known
        write_text(_path(root), json.dumps(notes), "note", shared=True)


def _path(root: Path) -> Path:
    return root / ".isoscope" / "experiments.json"


def _read(root: Path) -> dict[str, dict[str, str]]:
    return read_notes(_path(root))


def read_notes(path: Path) -> dict[str, dict[str, Any]]:
    """Return a mirror's notes by address; empty without a file. Warns about a damaged file."""
    try:
        notes = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        wrong = str(error).splitlines()[0]
    else:
        if isinstance(notes, dict) and all(isinstance(note, dict) for note in notes.values()):
            return notes
        wrong = "expected one object per address"
    print(f"warning: {path}: damaged ({wrong}); it will be rewritten", file=sys.stderr)
    return {}
