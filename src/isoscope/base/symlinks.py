"""Refuse links that lead out of the project, and pipes and devices in it, before a command opens them."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from isoscope.base.errors import InputError
from isoscope.base.paths import PARAMS, PLUGINS, PROFILES, VARIANTS, Project

# Files and folders of configuration and plugins, and those that isoscope writes.
_FILES = (PARAMS, "dvc.yaml", "dvc.lock", "mlflow.db")
_TREES = (VARIANTS, PROFILES, PLUGINS, "texts", "data", "models", "reports")


def check_links(project: Project) -> None:
    """Raise `InputError` at the first link that resolves outside the project, its state and DVC's cache.

    A link inside them belongs to DVC or the user. A link to another place could make a command read or replace files
    outside the project. Also at the first pipe, socket or device: a command that opens it could wait for ever.
    """
    homes = {home.resolve() for home in (project.folder, project.state)}
    cache: Path | None = None
    for link, mode in _unusual(project):
        if not stat.S_ISLNK(mode):
            raise InputError(f"{link}: a pipe, socket or device; remove it")
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


def _unusual(project: Project) -> Iterator[tuple[Path, int]]:
    """Yield what is neither a file nor a folder, with its mode."""
    state = (project.state / name for name in (".isoscope", "mlartifacts"))
    trees = [*state, *(project.folder / name for name in _TREES)]
    walked = (place for tree in trees for place in os.walk(tree, onerror=_unless_gone))
    below = (Path(folder, name) for folder, folders, names in walked for name in (*folders, *names))
    for path in (project.state / "mlflow.db", *(project.folder / name for name in _FILES), *trees, *below):
        try:
            mode = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):  # a live run may remove files meanwhile
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            yield path, mode


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def dvc_cache(project: Project) -> Path:
    """Return DVC's cache folder, as `dvc cache dir` prints it. Raises `InputError` if that fails."""
    beside = Path(sys.executable).parent  # finds dvc if the environment is not activated
    command = [shutil.which("dvc", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}") or "dvc", "cache", "dir"]
    try:
        shown = subprocess.run(command, cwd=project.state, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise InputError(f"dvc cache dir: {error}; cannot find DVC's cache") from None
    return Path(shown.stdout.strip()).resolve()
