"""Refuse links that lead out of the project, before a command reads or writes through them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from isoscope.errors import InputError
from isoscope.paths import PARAMS, PLUGINS, PROFILES, VARIANTS, Project

# Folders of configuration and plugins, and folders that isoscope writes.
_FILES = (PARAMS, Path("dvc.yaml"), Path("dvc.lock"), Path("mlflow.db"))
_TREES = (VARIANTS, PROFILES, PLUGINS, Path("texts"), Path("data"), Path("models"), Path("reports"))
_STATE = (Path(".isoscope"), Path("mlartifacts"))


def check_links(project: Project) -> None:
    """Raise `InputError` at the first link that resolves outside the project, its state and DVC's cache.

    A link inside them belongs to DVC or the user. A link to another place could make a command read or replace files
    outside the project.
    """
    homes = {home.resolve() for home in (project.folder, project.state)}
    cache: Path | None = None
    for link in _links(project):
        try:
            target = link.resolve()
        except (OSError, RuntimeError) as error:  # a link to itself
            raise InputError(f"{link}: a broken link ({str(error).splitlines()[0]}); remove it") from None
        if any(target.is_relative_to(home) for home in homes):
            continue
        cache = cache or dvc_cache(project)
        if not target.is_relative_to(cache):
            name = link.relative_to(project.folder) if link.is_relative_to(project.folder) else link
            raise InputError(f"{name}: a link to {target}, outside the project and DVC's cache; replace it with a copy")


def _links(project: Project) -> Iterator[Path]:
    for path in (project.state / "mlflow.db", *(project.folder / name for name in _FILES)):
        if path.is_symlink():
            yield path
    for tree in (*(project.state / name for name in _STATE), *(project.folder / name for name in _TREES)):
        if tree.is_symlink():
            yield tree
        yield from _below(os.fspath(tree))


def _below(folder: str) -> Iterator[Path]:
    """Yield every link in a tree, without following links."""
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
    """Return DVC's cache folder, as `dvc cache dir` prints it. Raises `InputError` if that fails."""
    beside = Path(sys.executable).parent  # finds dvc if the environment is not activated
    command = [shutil.which("dvc", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}") or "dvc", "cache", "dir"]
    try:
        shown = subprocess.run(command, cwd=project.state, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise InputError(f"dvc cache dir: {error}; cannot find DVC's cache") from None
    return Path(shown.stdout.strip()).resolve()
