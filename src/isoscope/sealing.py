"""Writes that survive: new file, then rename; folders that count once their manifest stands.

Every durable write announces itself to Python's audit hooks as the event `isoscope.durable` with its point, one of
`POINTS`, and its path: once before its first byte, once before it counts. That costs nothing where nobody listens.
"""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

MANIFEST = "manifest.json"
EVENT = "isoscope.durable"
Point = Literal[
    "record", "diff", "lease", "points", "state", "checkpoint", "snapshot", "manifest", "output", "publish",
    "data", "states", "table", "report", "params", "note",
]  # fmt: skip
POINTS: tuple[Point, ...] = get_args(Point)


def announce(point: Point, path: Path) -> None:
    """Say that a durable write of the kind `point` is about to happen."""
    sys.audit(EVENT, point, os.fspath(path))


def write_text(path: Path, text: str, point: Point, *, shared: bool = False) -> None:
    """Put a new file in the place of `path`, whole and on the disk; the old one is never opened for writing.

    The old one may be a link into DVC's cache. `shared`: other processes may write the same file at the same time.
    """
    announce(point, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}" if shared else f".{path.name}.writing")
    with fresh.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    announce(point, path)
    fresh.replace(path)


@contextmanager
def replacing(target: Path, point: Point) -> Iterator[Path]:
    """A fresh folder to fill, which then takes the place of `target`: the old one or the new one stands, whole."""
    fresh, old = (target.with_name(f".{target.name}.{state}") for state in ("writing", "old"))
    announce(point, target)
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
    fresh.mkdir(parents=True)
    yield fresh
    announce(point, target)
    if target.is_symlink() or target.is_file():
        target.unlink()
    elif target.exists():
        target.rename(old)
    fresh.rename(target)
    sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def write_whole(target: Path, fill: Callable[[Path], None], point: Point) -> None:
    """Build the folder `target` beside itself, on the disk and sealed, and let it take the place of an existing one."""
    with replacing(target, point) as fresh:
        fill(fresh)
        for path in fresh.iterdir():
            if path.is_file():
                sync(path)
        seal(fresh)


def seal(folder: Path) -> None:
    """Write the manifest (sha256 and size of every file), which makes the folder count.

    What a writer that was killed left half written goes: it would stand in the manifest and then be replaced.
    """
    for left in list(folder.rglob(".*.writing")):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    files = {
        path.relative_to(folder).as_posix(): {"sha256": _sha256(path), "size": path.stat().st_size}
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }
    write_text(folder / MANIFEST, json.dumps({"files": files}, indent=1, sort_keys=True), "manifest")


def fault(folder: Path) -> str | None:
    """What is wrong with a sealed folder, naming the file; None if every byte is as it was written."""
    try:
        files = json.loads((folder / MANIFEST).read_text("utf-8"))["files"]
        expected = {str(name): (entry["size"], entry["sha256"]) for name, entry in files.items()}
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        return f"{MANIFEST} cannot be read ({type(error).__name__}: {error})"
    for name, (size, sha256) in expected.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size or _sha256(path) != sha256:
            return f"{name} has changed since it was written"
    return None


def sync(path: Path) -> None:
    """Force a file's bytes, or a folder's entries, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
