"""Finished runs that stand for a later version of the code, whose golden traces equal theirs bit by bit."""

import json
import sys
from pathlib import Path
from typing import Any

from isoscope.paths import Project
from isoscope.sealing import fault, write_text

FOLDER = "accepted"


def code(project: Project, digest: str) -> str | None:
    """The version of the code that made the run which stands for `digest`; None where none does, or is damaged."""
    note = _read(_file(project, digest))
    if note is None or fault(project.runs / note["run"] / "output") is not None:
        return None
    return str(note["code"])


def write(project: Project, digest: str, *, run: str, code: str) -> None:
    """Let the finished run `run`, made by the version `code`, stand for `digest`."""
    text = json.dumps({"run": run, "code": code})
    write_text(_file(project, digest), text + "\n", "note", shared=True)


def standing(project: Project) -> set[str]:
    """Digests of the runs that stand for others."""
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
        print(f"warning: {path}: cannot be read and is passed over", file=sys.stderr)
        return None
