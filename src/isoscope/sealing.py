"""Folders that count only once their manifest stands: written whole, and known to be whole when read back."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

MANIFEST = "manifest.json"


def seal(folder: Path) -> None:
    """Write the manifest (sha256 and size of every file), which makes the folder count."""
    files = {
        path.relative_to(folder).as_posix(): {"sha256": _sha256(path), "size": path.stat().st_size}
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }
    _write_durably(folder / MANIFEST, json.dumps({"files": files}, indent=1, sort_keys=True))


def fault(folder: Path) -> str | None:
    """What is wrong with a sealed folder, naming the file; None if every byte is as it was written."""
    try:
        files = json.loads((folder / MANIFEST).read_text("utf-8"))["files"]
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except (ValueError, KeyError, OSError) as error:
        return f"{MANIFEST} cannot be read ({error})"
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != expected["size"] or _sha256(path) != expected["sha256"]:
            return f"{name} has changed since it was written"
    return None


def write_whole(target: Path, fill: Callable[[Path], None]) -> None:
    """Build the folder `target` beside itself, seal it and rename it into place; an existing one is replaced."""
    fresh = target.with_name(f".{target.name}.writing")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    fill(fresh)
    for path in fresh.iterdir():
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    seal(fresh)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
    sync_folder(target.parent)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_durably(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.writing")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)


def sync_folder(folder: Path) -> None:
    """Force a folder's entries to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
