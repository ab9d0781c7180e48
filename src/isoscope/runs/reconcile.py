"""Repair what dead processes left: mark their runs as KILLED, restore damaged records from metric points."""

from pathlib import Path
from typing import Any, NamedTuple

from isoscope.errors import InputError
from isoscope.paths import Project
from isoscope.runs.lease import HeldError, Lease, left_behind
from isoscope.runs.lines import FINISHED, RUNNING, RunRecord
from isoscope.runs.metric_points import points_of
from isoscope.runs.record import Record, read
from isoscope.runs.restored import METRICS
from isoscope.runs.stored import whole_files
from isoscope.sealing import fault


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
    points = _points(project, digest, record)
    if points is None and not damaged:
        return record
    try:
        with Lease(project.runs / digest, note=False), Record(path) as opened:
            opened.mend(points or [], source=None if points is None else METRICS)
            if points is not None and opened.before.status != FINISHED:
                opened.end(FINISHED, t=opened.before.latest)
    except HeldError:
        return record
    return read(path)


def _points(project: Project, digest: str, record: RunRecord) -> list[dict[str, Any]] | None:
    """Return the points in a run's intact output; None if there is no such output, or it has no points."""
    stored: Path = project.runs / digest / "output"
    sound = fault(stored) is None
    file = stored / METRICS if sound else whole_files(project, digest, record.end).get(METRICS)
    return None if file is None or not file.is_file() else [*points_of(file)]


REASON = "its process died (killed, out of memory, or power loss)"


class KilledRun(NamedTuple):
    """A run that was marked as KILLED."""

    digest: str
    title: str


def reconcile(project: Project) -> list[KilledRun]:
    """Mark every run as KILLED that is RUNNING in its record and that no live process owns; return these runs.

    A run's owner holds the kernel lock of its lease and empties the lease file at its end. A lease with text that
    nobody holds is stale: its owner is dead. Only such runs are read, and each is locked while its record is changed.
    """
    healed = []
    for folder in left_behind(project.runs):
        try:
            with Lease(folder):
                path = project.records / f"{folder.name}.jsonl"
                healed += _heal(path) if path.is_file() else []
        except InputError:  # another process has resumed the run meanwhile
            continue
    return healed


def _heal(path: Path) -> list[KilledRun]:
    known = read(path)
    if known.run is None or not known.attempts or known.status != RUNNING:
        return []
    with Record(path) as record:
        record.end("KILLED", reason=REASON)
    run = known.run
    title = run.arm or f"{run.stage} {run.study or ''}".strip()
    return [KilledRun(run.digest, title if run.seed is None else f"{title} seed {run.seed}")]
