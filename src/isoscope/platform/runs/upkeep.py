"""Keep `.isoscope/` in order: end runs whose process died, repair records, free DVC's locks, remove leftovers."""

import json
import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from isoscope.base.paths import Project
from isoscope.platform.runs.lines import FINISHED, RUNNING, Run, RunRecord
from isoscope.platform.runs.locks import HeldError, Lease, held
from isoscope.platform.runs.output_files import METRICS
from isoscope.platform.runs.record import Record, read
from isoscope.platform.runs.stored import accepted_runs, finished, locked_runs, output_points

RWLOCK = Path(".dvc/tmp/rwlock")
YOUNG = 3600.0  # seconds: a younger diff is kept without a reference


def mended(project: Project, digest: str) -> RunRecord:
    """Return a run's record; if it is damaged, first append the lost points and a line that counts them.

    The points come from the stored output if it is intact, or else from an output that matches the hash in the record
    or in dvc.lock. A run with an intact output is FINISHED, even if its record is truncated. Only its owner repairs the
    record of a running run.
    """
    path = project.records / f"{digest}.jsonl"
    record = read(path)
    damaged = record.damaged > record.mended
    if record.run is None or (record.status == FINISHED and not damaged):
        return record
    points = output_points(project, digest)
    if points is None and not damaged:
        return record
    with suppress(HeldError), Lease(project.runs / digest, note=False), Record(path) as opened:
        opened.mend(points or [], source=None if points is None else METRICS)
        if points is not None:
            opened.finish()
    return read(path)


def reconcile(project: Project) -> list[Run]:
    """Mark every run as KILLED that is RUNNING in its record and that no live process owns; return these runs.

    A run's owner holds the kernel lock of its lease and empties the lease file at its end. A lease with text that
    nobody holds is stale: its owner is dead. Only such runs are read, and each is locked while its record is changed.
    """
    killed = []
    leases = sorted(project.runs.glob("*/lease.json"))
    for folder in [path.parent for path in leases if path.stat().st_size and not held(path.parent)]:
        path = project.records / f"{folder.name}.jsonl"
        with suppress(HeldError), Lease(folder):  # another process may have resumed the run meanwhile
            known = read(path) if path.is_file() else RunRecord()
            if known.run and known.attempts and known.status == RUNNING:
                with Record(path) as record:
                    record.end("KILLED", reason="its process died (killed, out of memory, or power loss)")
                killed.append(known.run)
    return killed


def free_dvc(folder: Path) -> None:
    """Remove DVC's rwlock if it is stale: none of its processes is a live dvc, or a kill truncated the file.

    DVC only checks that a process with that pid exists. A zombie exists (in a container whose init reaps no children,
    forever), and so does another process that reuses the pid. DVC writes the file in place, so a kill can truncate it.
    """
    path = folder / RWLOCK
    owners = _owners(path)
    if owners is None:
        time.sleep(0.5)  # a live dvc may be writing it right now
        owners = _owners(path)
    if owners is None or (owners and not any(_alive(pid) for pid in owners)):
        path.unlink(missing_ok=True)


def _owners(path: Path) -> set[int] | None:
    """Return the pids in the file; None if it cannot be read."""
    try:
        held = json.loads(path.read_text("utf-8"))
        readers = [one for infos in held.get("read", {}).values() for one in infos]
        writers = [info for info in held.get("write", {}).values() if info]
        return {int(info["pid"]) for info in (*readers, *writers)}
    except FileNotFoundError:
        return set()
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _alive(pid: int) -> bool:
    """Return whether a process is a live dvc; without /proc, assume that it is."""
    if not Path("/proc/self").exists():
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX" and b"dvc" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


class Piece(NamedTuple):
    """A removable file or folder: path, size in bytes, and reason."""

    path: Path
    size: int
    reason: str


def kept_states(project: Project) -> list[Piece]:
    """Return the kept states of finished runs, by digest."""
    folders = [path for path in sorted(project.runs.glob("*/states")) if finished(project, path.parent.name)]
    return [Piece(path, size_of(path), "state of a finished run") for path in folders]


def clear(
    project: Project,
    *,
    cache: Path,
    idle_days: float,
    states: bool = False,
    ended: Collection[Path] = (),
    dry_run: bool = False,
) -> tuple[list[Piece], int]:
    """Remove unneeded files from `.isoscope/`; `cache` is DVC's cache. Records are never removed.

    Removes a stored output if dvc.lock names its hash and the cache holds all its files, except outputs of accepted
    runs. Removes unfinished work that is unchanged for `idle_days`. Keeps everything that a live process owns. Returns
    the removed pieces, and the bytes that `.isoscope/` still holds. `states`: also remove the kept states of finished
    runs. `ended`: what jobs of Slurm have left; it stays for `idle_days`, like unfinished work.
    """
    held = locked_runs(project.folder, cache).keys()
    standing, kept = accepted_runs(project), kept_states(project)
    pieces: list[Piece] = []
    for folder in sorted(path for path in project.runs.glob("*") if path.is_dir() and not path.is_symlink()):
        with suppress(HeldError), Lease(folder, note=False):  # a live process may own it
            own = [one for one in kept if states and one.path.parent == folder]
            pieces += remove([*own, *_of_run(folder, project, held, idle_days, folder.name in standing)], dry_run)
    jobs = [
        Piece(path, size_of(path), "left by jobs of Slurm")
        for path in ended
        if time.time() - path.lstat().st_mtime > max(YOUNG, idle_days * 86400)
    ]
    pieces += remove([*_diffs(project), *jobs], dry_run)
    state = project.state / ".isoscope"  # a fresh clone has none
    return pieces, (size_of(state) if state.is_dir() else 0) - sum(piece.size for piece in pieces if dry_run)


def _of_run(folder: Path, project: Project, held: Collection[str], idle_days: float, stands: bool) -> Iterator[Piece]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") and path.name.endswith((".writing", ".old")):
            yield Piece(path, size_of(path), "left by a dead process")
    output, end = folder / "output", finished(project, folder.name)
    if output.is_dir() and end and end.output_md5 in held and not stands:
        yield Piece(output, size_of(output), f"in DVC's cache ({end.output}, {end.output_md5})")
    names = ("work", "start") if end else ("work", "states", "start")
    unfinished = [folder / name for name in names if (folder / name).is_dir()]
    if unfinished:
        touched = max(path.lstat().st_mtime for top in unfinished for path in (top, *top.rglob("*")))
        idle = (time.time() - touched) / 86400
        if idle >= idle_days:
            for path in unfinished:
                yield Piece(path, size_of(path), f"unfinished, unchanged for {idle:.0f} days")


def remove(pieces: list[Piece], dry_run: bool) -> list[Piece]:
    """Remove files and folders unless it is a dry run; return them."""
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
            yield Piece(path, size_of(path), "no record refers to it")


def size_of(*paths: Path) -> int:
    """Return the bytes of files and folders, each linked file once; a live run may remove files meanwhile."""
    places = [
        one for path in paths for one in (path, *(Path(of, name) for of, _, names in os.walk(path) for name in names))
    ]
    sizes: dict[tuple[int, int], int] = {}
    for path in places:  # unlike rglob, os.walk tolerates folders that disappear
        with suppress(FileNotFoundError):
            known = path.lstat()
            sizes[known.st_dev, known.st_ino] = 0 if path.is_dir() and not path.is_symlink() else known.st_size
    return sum(sizes.values())
