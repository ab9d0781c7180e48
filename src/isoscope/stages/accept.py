"""Finished runs accepted for the code as it is now, where it gives their golden traces bit by bit."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from isoscope.errors import InputError, RunError
from isoscope.paths import Project
from isoscope.sealing import fault
from isoscope.stages.train import Job, rehearse
from isoscope.tracking import accepted
from isoscope.tracking.lease import Lease
from isoscope.tracking.record import Record, read
from isoscope.training import trace
from isoscope.training.loop import TRACE


class Candidate(NamedTuple):
    """A finished run of an earlier version of the code, and the job that is its like now."""

    job: Job
    digest: str
    code: str

    @property
    def output(self) -> Path:
        return self.job.run.project.runs / self.digest / "output"


def accept(jobs: Iterable[Job], *, project: Project) -> list[Candidate]:
    """Let finished runs of earlier code stand for what `jobs` would make now: all of them, or none.

    One run of every arm and every earlier version begins anew, for `trace.STEPS` updates; losses, gradient norms,
    validation figures and weights must equal those its trace holds in every bit. Returns the runs accepted, none where
    nothing was to accept. Raises `RunError` naming the first difference, `InputError` where a run has no trace.
    """
    codes = _codes(project)
    found = [one for job in jobs if not job.run.finished for one in _candidates(job, codes)]
    compared: set[tuple[str, str]] = set()
    for one in found:
        if (one.job.cell.arm, one.code) not in compared:
            _compare(one)
            compared.add((one.job.cell.arm, one.code))
    for one in found:
        run = one.job.run
        with Lease(project.runs / one.digest), Record(project.records / f"{one.digest}.jsonl") as record:
            record.accepted(code=run.identity.code, digest=run.identity.digest)
            accepted.write(project, run.identity.digest, run=one.digest, code=one.code)
    return found


def _codes(project: Project) -> list[str]:
    """Versions of the code that have trained here, by the records."""
    runs = (read(path).run for path in sorted(project.records.glob("*.jsonl")))
    return sorted({run.code for run in runs if run and run.code and run.stage == "train"})


def _candidates(job: Job, codes: list[str]) -> list[Candidate]:
    """The first finished and undamaged run that differs from the job in nothing but the version of the code."""
    for code in codes:
        one = Candidate(job, job.run.identity.digest_under(code), code)
        if one.output.is_dir() and fault(one.output) is None:
            return [one]
    return []


def _compare(one: Candidate) -> None:
    title, file = one.job.run.identity.title, one.output / TRACE
    if not file.is_file():
        raise InputError(f"{title} ({one.digest[:12]}): its version of the code left no golden trace; train it again")
    before: dict[str, Any] = json.loads(file.read_text("utf-8"))
    if wrong := trace.difference(before, rehearse(one.job)):
        raise RunError(
            f"{title} ({one.digest[:12]}): {wrong}: the code gives other numbers, so nothing is accepted; "
            "isoscope repro trains again what has changed"
        )
