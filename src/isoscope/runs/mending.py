"""Damaged records, made whole from the points that the runs themselves hold."""

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
    """A run's record, after what damage took from it was written again; one line says how much, once.

    The points come from the run's output: the stored one if that is whole, else one whose every byte its record or
    dvc.lock vouches for. A run whose output is whole has finished, also where its record was cut. The record of a run
    that is under way is its owner's to mend.
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
    """The points in a run's output; None where there is none that is whole, or it holds none."""
    stored: Path = project.runs / digest / "output"
    sound = fault(stored) is None
    file = stored / METRICS if sound else whole_files(project, digest, record.end).get(METRICS)
    return None if file is None or not file.is_file() else [*points_of(file)]
