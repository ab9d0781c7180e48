"""Where MLflow is, as it may be written down, and the ids of its experiments there, so that a page can link to them."""

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from isoscope.sealing import write_text

LOCAL = "mlflow.db"


def address(uri: str | None) -> str:
    """A tracking address without user and password: `uri`, or $MLFLOW_TRACKING_URI, or the project's own database."""
    parts = urlsplit(uri or os.environ.get("MLFLOW_TRACKING_URI") or LOCAL)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def known_experiments(root: Path, uri: str | None) -> dict[str, str]:
    """Name → id of the experiments that a mirror has met at an address."""
    return _read(root).get(address(uri), {})


def note_experiment(root: Path, uri: str | None, name: str, known: str) -> None:
    """Remember an experiment's id at an address."""
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
    """What mirrors have noted in a file, by address; nothing where there is no file. One that is damaged is named."""
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
    print(f"warning: {path}: damaged ({wrong}); it is written anew", file=sys.stderr)
    return {}
