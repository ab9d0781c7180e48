"""Repair damaged records from the metric points in the runs' outputs."""

from pathlib import Path
from typing import Any

from isoscope.paths import Project
from isoscope.runs.lease import HeldError, Lease
from isoscope.runs.lines import FINISHED, RunRecord
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
