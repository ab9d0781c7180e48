"""Garbage collection of `.isoscope/`: outputs that DVC caches, abandoned work, leftovers of dead writers."""

import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from isoscope.base.paths import Project
from isoscope.platform.runs.lease import HeldError, Lease
from isoscope.platform.runs.record import read
from isoscope.platform.runs.stored import accepted_runs, finished, locked_runs

YOUNG = 3600.0  # seconds: a younger diff is kept without a reference


class Piece(NamedTuple):
    """A removable file or folder: path, size in bytes, and reason."""

    path: Path
    size: int
    reason: str


def clear(project: Project, *, cache: Path, idle_days: float, dry_run: bool = False) -> tuple[list[Piece], int]:
    """Remove unneeded files from `.isoscope/`; `cache` is DVC's cache. Records are never removed.

    Removes a stored output if dvc.lock names its hash and the cache holds all its files, except outputs of accepted
    runs. Removes unfinished work that is unchanged for `idle_days`. Keeps everything that a live process owns. Returns
    the removed pieces, and the bytes that `.isoscope/` still holds.
    """
    held = locked_runs(project.folder, cache).keys()
    standing = accepted_runs(project)
    pieces: list[Piece] = []
    for folder in sorted(path for path in project.runs.glob("*") if path.is_dir() and not path.is_symlink()):
        with suppress(HeldError), Lease(folder, note=False):  # a live process may own it
            pieces += _remove(list(_of_run(folder, project, held, idle_days, folder.name in standing)), dry_run)
    pieces += _remove(list(_diffs(project)), dry_run)
    gone = {piece.path for piece in pieces} if dry_run else set()
    state = project.state / ".isoscope"  # a fresh clone has none
    return pieces, (_size(state) if state.is_dir() else 0) - sum(_size(path) for path in gone)


def _of_run(folder: Path, project: Project, held: Collection[str], idle_days: float, stands: bool) -> Iterator[Piece]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") and path.name.endswith((".writing", ".old")):
            yield Piece(path, _size(path), "left by a dead process")
    output, end = folder / "output", finished(project, folder.name)
    if output.is_dir() and end and end.output_md5 in held and not stands:
        yield Piece(output, _size(output), f"in DVC's cache ({end.output}, {end.output_md5})")
    unfinished = [folder / name for name in ("work", "states", "start") if (folder / name).is_dir()]
    if unfinished:
        touched = max(path.lstat().st_mtime for top in unfinished for path in (top, *top.rglob("*")))
        idle = (time.time() - touched) / 86400
        if idle >= idle_days:
            for path in unfinished:
                yield Piece(path, _size(path), f"unfinished, unchanged for {idle:.0f} days")


def _remove(pieces: list[Piece], dry_run: bool) -> list[Piece]:
    for piece in [] if dry_run else pieces:
        if piece.path.is_dir() and not piece.path.is_symlink():
            shutil.rmtree(piece.path)
        else:
            piece.path.unlink()
    return pieces


def _diffs(project: Project) -> Iterator[Piece]:
    """Yield stored diffs that no record references; skip young diffs, because a new run may be about to record them."""
    folder = project.records / "diffs"
    # List before reading the records: a new diff may appear meanwhile.
    there = sorted(folder.iterdir()) if folder.is_dir() else []
    records = [read(path) for path in sorted(project.records.glob("*.jsonl"))]
    named = {Path(item.path).name for record in records for item in record.artifacts}
    named |= {f"{one.git.get('diff_sha256')}.patch" for record in records for one in record.attempts}
    for path in there:
        if path.name not in named and path.is_file() and time.time() - path.stat().st_mtime > YOUNG:
            yield Piece(path, _size(path), "no record refers to it")


def _size(path: Path) -> int:
    """Return the bytes of a file or of a folder's files; a live run may remove files meanwhile."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    size = 0
    for folder, _, files in os.walk(path):  # unlike rglob, it tolerates folders that disappear
        for name in files:
            with suppress(FileNotFoundError):
                size += Path(folder, name).lstat().st_size
    return size
