"""Finished runs accepted for the code as it is now, where it gives their golden traces bit by bit."""

import json
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch

from isoscope.errors import InputError, RunError
from isoscope.paths import Project
from isoscope.runs import accepted
from isoscope.runs.lease import Lease
from isoscope.runs.record import Record, read
from isoscope.runs.stored import finished, take_back
from isoscope.sealing import fault
from isoscope.stages.train import rehearse
from isoscope.stages.training_job import Job
from isoscope.training import trace


class Candidate(NamedTuple):
    """A finished run of an earlier version of the code, and the job that is its like now."""

    job: Job
    digest: str
    code: str

    @property
    def output(self) -> Path:
        return self.job.run.project.runs / self.digest / "output"

    @property
    def title(self) -> str:
        return f"{self.job.run.identity.title} ({self.digest[:12]})"


def accept(jobs: Iterable[Job], *, project: Project) -> list[Candidate]:
    """Let finished runs of earlier code stand for what `jobs` would make now: all of them, or none.

    Of each study, arm and earlier version of the code one run begins anew, for as many updates as its trace holds:
    losses, gradient norms, validation figures and weights must equal the trace's in every bit. Where several versions
    have made a run, the newest whose trace is equal is taken. Returns the runs accepted, none where nothing was to
    accept. Raises `RunError` naming the first difference, `InputError` where a run has no trace or is gone.
    """
    codes = _codes(project)
    found: list[Candidate] = []
    verdicts: dict[tuple[str, str, str], str | None] = {}
    for job in jobs:
        if _stands(job):
            continue
        wrong = None
        for one in _candidates(job, codes):
            key = (job.cell.study, job.cell.arm, one.code)
            if key not in verdicts:
                verdicts[key] = _difference(one)
            if verdicts[key] is None:
                found.append(one)
                break
            wrong = wrong or verdicts[key]
        else:
            if wrong is not None:
                raise RunError(f"{wrong}; nothing is accepted, and isoscope repro trains again what has changed")
            if gone := _gone(job, codes):
                raise InputError(
                    f"{gone.title}: finished, but its stored output is gone; get it back with dvc checkout"
                )
    for one in found:
        run = one.job.run
        with Lease(project.runs / one.digest), Record(project.records / f"{one.digest}.jsonl") as record:
            record.accepted(code=run.identity.code, digest=run.identity.digest)
            accepted.write(project, run.identity.digest, run=one.digest, code=one.code)
    return found


def _stands(job: Job) -> bool:
    """Whether the code as it is now has made this run, its output stored or put back."""
    run = job.run
    if run.output.is_dir() or not finished(run.project, run.digest):
        return run.finished
    with Lease(run.folder):
        return run.finished


def _codes(project: Project) -> list[str]:
    """Versions of the code that have finished a training here, by the records; the newest first."""
    newest: dict[str, int] = {}
    for path in project.records.glob("*.jsonl"):
        record = read(path)
        if record.run and record.run.code and record.run.stage == "train" and record.end:
            newest[record.run.code] = max(record.end.t, newest.get(record.run.code, 0))
    return sorted(newest, key=lambda code: newest[code], reverse=True)


def _candidates(job: Job, codes: list[str]) -> Iterator[Candidate]:
    """Finished and undamaged runs that differ from the job in nothing but the version of the code."""
    for code in codes:
        one = Candidate(job, job.run.identity.digest_under(code), code)
        if not one.output.is_dir() and finished(project := job.run.project, one.digest):
            with Lease(project.runs / one.digest):
                take_back(project, one.digest)
        if one.output.is_dir() and fault(one.output) is None:
            yield one


def _gone(job: Job, codes: list[str]) -> Candidate | None:
    """A run that has finished and left nothing here."""
    like = (Candidate(job, job.run.identity.digest_under(code), code) for code in codes)
    return next((one for one in like if not one.output.is_dir() and finished(job.run.project, one.digest)), None)


def _difference(one: Candidate) -> str | None:
    """How the code as it is now departs from a run's golden trace, in words; None where every bit is the same."""
    file = one.output / trace.FILE
    if not file.is_file():
        raise InputError(f"{one.title}: its version of the code left no golden trace; train it again")
    before: dict[str, Any] = json.loads(file.read_text("utf-8"))
    wrong = trace.difference(before, rehearse(one.job, len(before["steps"])))
    return None if wrong is None else f"{one.title}: {wrong}{_circumstances(one)}"


def _circumstances(one: Candidate) -> str:
    """What else than the code may have moved the bits."""
    author = read(one.job.run.project.records / f"{one.digest}.jsonl").author
    made = author.environment if author else {}
    now = {"torch": version("torch"), "threads": torch.get_num_threads(), "processes": 1}
    other = [f"{name} {made[name]} then, {value} now" for name, value in now.items() if made.get(name, value) != value]
    return f" (not the code alone has changed: {', '.join(other)})" if other else ""
