"""Mark runs whose process died as KILLED: by a signal, out of memory or a loss of power."""

from pathlib import Path
from typing import NamedTuple

from isoscope.errors import InputError
from isoscope.paths import Project
from isoscope.runs.lease import Lease, left_behind
from isoscope.runs.lines import RUNNING
from isoscope.runs.record import Record, read

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
