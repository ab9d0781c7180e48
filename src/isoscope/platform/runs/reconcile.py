"""Repair what dead processes left: runs that seem to be running, damaged records, DVC's path locks."""

import json
import time
from contextlib import suppress
from pathlib import Path

from isoscope.base.paths import Project
from isoscope.platform.runs.lease import HeldError, Lease, held
from isoscope.platform.runs.lines import FINISHED, RUNNING, Run, RunRecord
from isoscope.platform.runs.record import Record, read
from isoscope.platform.runs.restored import METRICS
from isoscope.platform.runs.stored import output_points

RWLOCK = Path(".dvc/tmp/rwlock")


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
    points = output_points(project, digest, record.end)
    if points is None and not damaged:
        return record
    with suppress(HeldError), Lease(project.runs / digest, note=False), Record(path) as opened:
        opened.mend(points or [], source=None if points is None else METRICS)
        if points is not None and opened.before.status != FINISHED:
            opened.end(FINISHED, t=opened.before.latest)
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
