"""Links that lead out of the project: refused before anything is read through them or written behind them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from isoscope.errors import InputError
from isoscope.paths import PARAMS, PLUGINS, PROFILES, VARIANTS, Project

# Where isoscope reads what it obeys, and where it writes.
_FILES = (PARAMS, Path("dvc.yaml"), Path("dvc.lock"), Path("mlflow.db"))
_TREES = (VARIANTS, PROFILES, PLUGINS, Path("texts"), Path("data"), Path("models"), Path("reports"))
_STATE = (Path(".isoscope"), Path("mlartifacts"))


def check_links(project: Project) -> None:
    """Raise `InputError` at the first link that resolves outside the project, its state and DVC's cache.

    A link within them is DVC's or the user's own; one that leads elsewhere could make a command read or replace
    what is none of the project's.
    """
    homes = {home.resolve() for home in (project.folder, project.state)}
    cache: Path | None = None
    for link in _links(project):
        try:
            target = link.resolve()
        except (OSError, RuntimeError) as error:  # a link to itself
            raise InputError(f"{link}: a link that leads nowhere ({str(error).splitlines()[0]}); remove it") from None
        if any(target.is_relative_to(home) for home in homes):
            continue
        cache = cache or dvc_cache(project)
        if not target.is_relative_to(cache):
            name = link.relative_to(project.folder) if link.is_relative_to(project.folder) else link
            raise InputError(
                f"{name}: a link to {target}, outside the project and DVC's cache; put a copy in its place"
            )


def _links(project: Project) -> Iterator[Path]:
    for path in (project.state / "mlflow.db", *(project.folder / name for name in _FILES)):
        if path.is_symlink():
            yield path
    for tree in (*(project.state / name for name in _STATE), *(project.folder / name for name in _TREES)):
        if tree.is_symlink():
            yield tree
        yield from _below(os.fspath(tree))


def _below(folder: str) -> Iterator[Path]:
    """Every link in a tree; none is followed."""
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_symlink():
            yield Path(entry.path)
        elif entry.is_dir(follow_symlinks=False):
            yield from _below(entry.path)


def dvc_cache(project: Project) -> Path:
    """DVC's cache, as DVC itself finds it; raises `InputError` where it does not."""
    beside = Path(sys.executable).parent  # where an environment that is not activated has it
    command = [shutil.which("dvc", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}") or "dvc", "cache", "dir"]
    try:
        shown = subprocess.run(command, cwd=project.state, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise InputError(f"dvc cache dir: {error}; DVC must say where its cache is") from None
    return Path(shown.stdout.strip()).resolve()
