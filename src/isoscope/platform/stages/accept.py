"""Accept finished runs of earlier code if the current code reproduces their golden traces bit by bit."""

from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import torch

from isoscope.base import built_in
from isoscope.base.errors import InputError, RunError
from isoscope.base.paths import Project
from isoscope.platform.runs.locks import Lease
from isoscope.platform.runs.record import Record, identities, read
from isoscope.platform.runs.stored import accept_run, finished, output_fault, take_back
from isoscope.platform.stages.train import CellJob


class Candidate(NamedTuple):
    """A finished run of earlier code, and the equal job under the current code."""

    job: CellJob
    digest: str
    code: str

    @property
    def output(self) -> Path:
        return self.job.run.project.runs / self.digest / "output"

    @property
    def title(self) -> str:
        return f"{self.job.run.identity.title} ({self.digest[:12]})"


def accept_all(jobs: Callable[[], Iterable[CellJob]], *, project: Project) -> list[Candidate]:
    """Accept the finished runs of `jobs()`, then those of the jobs that start from accepted runs, as `accept`.

    The digest of a start is an input of these jobs, so they find their own finished runs only after its acceptance.
    """
    found: list[Candidate] = []
    while more := accept(jobs(), project=project):
        found += more
    return found


def accept(jobs: Iterable[CellJob], *, project: Project) -> list[Candidate]:
    """Accept finished runs of earlier code as results of `jobs`: all of them, or none. Return the accepted runs.

    For each study, arm and earlier version of the code, a run is repeated for as many updates as its trace holds.
    Losses, gradient norms, validation metrics and weights must equal the trace in every bit. If several versions made a
    run, the newest with an equal trace is accepted. Raises `RunError` that names the first difference, `InputError` if
    a run has no trace or its output is gone.
    """
    runs = sorted(identities(project.records), key=lambda one: one.t, reverse=True)
    codes = [*dict.fromkeys(one.code for one in runs if one.code and one.stage == "train")]  # newest first
    found: list[Candidate] = []
    verdicts: dict[tuple[str | None, str | None, str], str | None] = {}
    for job in jobs:
        if _intact(project, job.run.digest) or job.run.finished:  # a run of a clone has no record
            continue
        wrong = None
        candidates = [Candidate(job, job.run.identity.digest_under(code), code) for code in codes]
        for one in (one for one in candidates if _intact(project, one.digest)):
            key = (job.run.identity.study, job.run.identity.arm, one.code)
            if key not in verdicts:
                verdicts[key] = _difference(one)
            if verdicts[key] is None:
                found.append(one)
                break
            wrong = wrong or verdicts[key]
        else:
            if wrong is not None:
                raise RunError(f"{wrong}; nothing is accepted; to train the changed runs again, run: isoscope repro")
            gone = [one for one in candidates if not one.output.is_dir() and finished(project, one.digest)]
            if gone:
                raise InputError(f"{gone[0].title}: its stored output is gone; restore it with dvc checkout")
    for one in found:
        run = one.job.run
        with Lease(project.runs / one.digest), Record(project.records / f"{one.digest}.jsonl") as record:
            record.accepted(code=run.identity.code, digest=run.identity.digest)
            accept_run(project, run.identity.digest, run=one.digest, code=one.code)
    return found


def _intact(project: Project, digest: str) -> bool:
    """Whether a run's stored output is undamaged; restores a missing or damaged output of a finished run first."""
    output = project.runs / digest / "output"
    whole = output_fault(project, digest) is None
    if whole or not finished(project, digest):
        return whole
    with Lease(output.parent):
        return take_back(project, digest)


def _difference(one: Candidate) -> str | None:
    """Return how the current code differs from a run's golden trace; None if every bit is equal."""
    wrong = built_in.load(built_in.STAGES, "train").retraced(one.job.job, one.output, one.title)
    if wrong is None:
        return None
    author = read(one.job.run.project.records / f"{one.digest}.jsonl").author
    made = author.environment if author else {}
    now = {"torch": version("torch"), "threads": torch.get_num_threads(), "processes": 1}
    other = [f"{name} {made[name]} then, {value} now" for name, value in now.items() if made.get(name, value) != value]
    more = f" (other things than the code changed, too: {', '.join(other)})" if other else ""
    return f"{one.title}: {wrong}{more}"
