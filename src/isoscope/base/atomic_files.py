"""Atomic, durable writes: write a new file, then rename; a folder is valid when it has a manifest.

Every durable write raises the audit event `isoscope.durable` with its point (a `Point`) and its path: before the
first byte, and before the rename. This costs nothing without an audit hook.
"""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from isoscope.base.errors import RunError

MANIFEST = "manifest.json"
EVENT = "isoscope.durable"
SEAL = "sha256"
Point = Literal[
    "record", "diff", "lease", "points", "state", "checkpoint", "snapshot", "manifest", "output", "publish",
    "data", "states", "table", "report", "params", "note",
]  # fmt: skip
_DAMAGED = (ValueError, KeyError, TypeError, AttributeError, OSError)


def announce(point: Point, path: Path) -> None:
    """Raise the audit event of a durable write of kind `point`."""
    sys.audit(EVENT, point, os.fspath(path))


@contextmanager
def replacing_file(path: Path, point: Point, *, shared: bool = False) -> Iterator[Path]:
    """Yield a new file to write, which is flushed to disk and then replaces the file `path`; the old is never opened.

    The old file may be a link to DVC's cache. `shared`: other processes may write the same file at the same time.
    """
    announce(point, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}" if shared else f".{path.name}.writing")
    try:
        yield fresh
        sync(fresh)
        announce(point, path)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str, point: Point, *, shared: bool = False) -> None:
    """Replace the file `path` by this text, as `replacing_file` does."""
    with replacing_file(path, point, shared=shared) as fresh:
        fresh.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")


@contextmanager
def replacing(target: Path, point: Point) -> Iterator[Path]:
    """Yield a new folder to fill, which then replaces `target`: `target` is either the complete old or new folder."""
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


def write_whole(target: Path, fill: Callable[[Path], None], point: Point) -> str:
    """Write the folder `target` with `fill`, flush it, seal it, and replace an existing folder atomically.

    Returns the sha256 of its manifest.
    """
    with replacing(target, point) as fresh:
        fill(fresh)
        for path in fresh.iterdir():
            if path.is_file():
                sync(path)
        return seal(fresh)


def seal(folder: Path, *, of: str | None = None) -> str:
    """Write the manifest (sha256 of every file), which makes the folder valid; return the manifest's sha256.

    `of`: the digest of the run whose output it is, which `fault` can compare.

    Removes partial files of a killed writer, because a later writer would replace them and break the manifest. Raises
    `RunError` if a sealed subfolder has changed: the new manifest would hide the damage.
    """
    for left in list(folder.rglob(".*.writing")):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    files = {
        _name(path, folder): sha256(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }
    for inner in sorted(path.parent for path in folder.rglob(MANIFEST) if path.parent != folder):
        prefix = f"{_name(inner, folder)}/"
        now = {name.removeprefix(prefix): known for name, known in files.items() if name.startswith(prefix)}
        if wrong := fault(inner, now):
            raise RunError(f"{inner}: {wrong}; run the same command again to resume from an older state")
    entries = {name: {"sha256": known} for name, known in files.items()}
    text = json.dumps({"files": entries} | ({} if of is None else {"of": of}), indent=1, sort_keys=True)
    write_text(folder / MANIFEST, text, "manifest")
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _manifest(folder: Path, of: str | None = None) -> tuple[dict[str, str], str]:
    """Return the sha256 of each file in a manifest, and its run; `of`, as a manifest of an earlier version names none.

    Raises one of `_DAMAGED`.
    """
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    return {str(name): str(entry["sha256"]) for name, entry in manifest["files"].items()}, str(manifest.get("of", of))


def fault(folder: Path, now: Mapping[str, str] | None = None, *, of: str | None = None) -> str | None:
    """Return the fault of a sealed folder, with the file's name; None if it is intact.

    `now`: current sha256 of its files, if already known. `of`: the run that it must belong to.
    """
    try:
        expected, owner = _manifest(folder, of)
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except _DAMAGED as error:
        return f"{MANIFEST} cannot be read ({type(error).__name__}: {error})"
    if wrong := changed(folder, expected, sha256 if now is None else lambda path: now.get(_name(path, folder))):
        return wrong
    return f"it is the output of run {owner[:12]}" if of is not None and owner != of else None


def changed(folder: Path, known: Mapping[str, str], hashed: Callable[[Path], str | None]) -> str | None:
    """Return which file of a folder is missing, or has another hash than `known`, by relative path; None if none."""
    for name, expected in known.items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        if hashed(folder / name) != expected:
            return f"{name} has changed since it was written"
    return None


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def listed(folder: Path) -> dict[str, str]:
    """Return the sha256 of each file in a sealed folder's manifest; empty if it is missing or damaged."""
    try:
        return _manifest(folder)[0]
    except _DAMAGED:
        return {}


def unlisted(folder: Path, below: Path) -> list[str]:
    """Return the files of `below`, a part of the sealed `folder`, that its manifest does not list; no hidden files."""
    known = listed(folder)
    files = (path for path in sorted(below.rglob("*")) if path.is_file() and not path.name.startswith("."))
    return [name for path in files if (name := _name(path, folder)) not in known and path.name != MANIFEST]


def sealed_json(facts: Mapping[str, Any]) -> str:
    """Return facts as a JSON object whose last field is the sha256 of the others; `unsealed` reads it."""
    return json.dumps({**facts, SEAL: _sum(facts)}, indent=1, allow_nan=False) + "\n"


def unsealed(text: str) -> dict[str, Any]:
    """Return the facts of a `sealed_json`. Raises `ValueError` if they were altered or are no such object."""
    facts = json.loads(text)
    if not isinstance(facts, dict) or facts.pop(SEAL, None) != _sum(facts):
        raise ValueError("its content has changed since it was written")
    return facts


def _sum(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def altered(folder: Path) -> str | None:
    """Return the fault of a folder that has a manifest; None if it is intact or has none."""
    return fault(folder) if (folder / MANIFEST).exists() else None


def sync(path: Path) -> None:
    """Flush a file's bytes, or a folder's entries, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    """Return the sha256 (hex) of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def kept(cache: Path, made_from: Mapping[str, Any], fill: Callable[[Path], None], point: Point) -> Path:
    """Return the folder for `made_from` in a content-addressed `cache`; call `fill` if it is missing or damaged.

    `made_from`: JSON-serialisable values; equal values give the same folder.
    """
    folder = cache / hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()
    if fault(folder) is not None:
        write_whole(folder, fill, point)
    return folder
