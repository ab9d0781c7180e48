"""Accepted runs: finished runs that stay valid for a later code version, because their golden traces are equal."""

import json
import sys
from pathlib import Path
from typing import Any

from isoscope.paths import Project
from isoscope.sealing import fault, write_text

FOLDER = "accepted"


def code(project: Project, digest: str) -> str | None:
    """Return the code version of the run accepted for `digest`; None if there is none or its file is damaged."""
    note = _read(_file(project, digest))
    if note is None or fault(project.runs / note["run"] / "output") is not None:
        return None
    return str(note["code"])


def write(project: Project, digest: str, *, run: str, code: str) -> None:
    """Accept the finished run `run` of code version `code` for `digest`."""
    text = json.dumps({"run": run, "code": code})
    write_text(_file(project, digest), text + "\n", "note", shared=True)


def standing(project: Project) -> set[str]:
    """Return the digests of the accepted runs."""
    notes = (_read(path) for path in (project.state / ".isoscope" / FOLDER).glob("*.json"))
    return {note["run"] for note in notes if note}


def _file(project: Project, digest: str) -> Path:
    return project.state / ".isoscope" / FOLDER / f"{digest}.json"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        note = json.loads(path.read_text("utf-8"))
        return {"run": str(note["run"]), "code": str(note["code"])}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        print(f"warning: {path}: cannot be read; ignored", file=sys.stderr)
        return None
