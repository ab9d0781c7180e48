"""The last finished run of a study, arm and seed, and why a new run of these names does not continue it."""

from collections.abc import Iterator
from typing import Any

from isoscope.base.paths import Project
from isoscope.platform.runs.differences import differences
from isoscope.platform.runs.lines import PLUGIN, Run, RunRecord
from isoscope.platform.runs.run import Run as OwnedRun
from isoscope.platform.runs.stored import finished

_SHOWN = 3
_LENGTH = ("training.epochs", "training.budget", "training.schedule")


def earlier_run(run: OwnedRun) -> str | None:
    """Say why a new run does not continue the last finished run of its names; None if there is none.

    Runs of a search are no such runs: they differ by their purpose.
    """
    if run.tags or (last := last_finished(run)) is None:
        return None
    changed = differences(run.project, last, run.line, now=run.identity.functions)
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    length = any(one.name.startswith(_LENGTH) for one in changed)
    why = "; the schedule of the learning rate covers the whole run" if length else ""
    starts = any(role.startswith("start_") for role in run.identity.inputs)
    reused = "the prepared data" + " and the runs that it starts from" * starts
    return (
        f"not a continuation of the finished run {last.digest[:12]}: {', '.join(one.text for one in changed[:_SHOWN])}"
        f"{more}{why}; it trains from epoch 1, and reuses {reused}"
    )


def last_finished(run: OwnedRun) -> Run | None:
    """Return the identity of the last run of a run's names that finished, and is another run; None without."""
    return last_of(run.project, other_than=run.digest, **run.identity.names)


def last_of(project: Project, other_than: str = "", **names: Any) -> Run | None:
    """Return the identity of the last finished run of these names; None without."""
    before = [one for one in _runs(project) if {name: getattr(one, name) for name in names} == names]
    done = [one for one in before if one.digest != other_than and finished(project, one.digest)]
    return max(done, key=lambda one: one.t, default=None)


def _runs(project: Project) -> Iterator[Run]:
    """Yield the identity in the first line of every record, except of runs of a search."""
    for path in project.records.glob("*.jsonl"):
        record = RunRecord(path=path)
        with path.open("rb") as file:
            record.add(file.readline().rstrip(b"\n"))
        if record.run is not None and all(name.startswith(PLUGIN) for name in record.run.tags):
            yield record.run
