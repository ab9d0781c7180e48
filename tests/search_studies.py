"""Searches of short sleeps, begun as processes of their own, and what they left."""

import os
import subprocess
import sys
from pathlib import Path

import optuna

WORK = Path(__file__).with_name("search_work.py")


def begin(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start a search in a folder."""
    command = [sys.executable, "-W", "ignore", str(WORK), str(folder), *words]
    path = os.pathsep.join([str(WORK.parents[1] / "src"), str(WORK.parent)])
    return subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def ended(process: subprocess.Popen[str], seconds: float = 120, *, code: int = 0) -> str:
    """What it said, its end waited for."""
    _, said = process.communicate(timeout=seconds)
    assert process.returncode == code, said
    return said


def trials_of(folder: Path, url: str | None = None) -> list[optuna.trial.FrozenTrial]:
    """The trials of its study."""
    storage = optuna.storages.RDBStorage(url or f"sqlite:///{folder / 'studies.db'}")
    try:
        return optuna.load_study(study_name="sleep", storage=storage).trials
    finally:
        storage.engine.dispose()
