"""Run the training runs of a trial: each in its own process, watched, retried after a crash, pruned."""

import contextlib
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from optuna.trial import Trial, TrialState

from isoscope.config.explain import nearest
from isoscope.config.searching import Search
from isoscope.errors import InputError
from isoscope.executor.child import CRASHED, DONE, KILLED, STOPPED, WRONG, Child, Ending
from isoscope.executor.execute import Requests
from isoscope.runs.secrets import scrub
from isoscope.search.leases import BASELINE
from isoscope.search.outcomes import PROVENANCE, worked
from isoscope.search.storage import away, persist
from isoscope.search.study import OpenStudy

LOOK, QUIET = 0.05, 1.0  # seconds between polls of a run, and of other workers' trials
NOTED = 60.0  # seconds of work that a killed worker may leave unrecorded
GRACE = 30.0  # seconds for a run to save its state


class Job(Protocol):
    """One run of a trial."""

    digest: str
    steps: int
    """Maximum number of values that it reports."""

    def done(self) -> bool:
        """Whether it was finished before; its trial is then not pruned."""

    def run(self) -> object:
        """Run or resume it, in its own process; SIGTERM stops it so that it can resume."""

    def reports(self) -> Iterable[tuple[int, float]]:
        """Step (1, 2, …) and value of the first objective so far."""

    def metrics(self) -> Mapping[str, float]:
        """All metrics, once it is done."""


Plan = Callable[[Mapping[str, Any]], Sequence[Job]]
"""Chosen values → runs of the trial."""


class Outcome(NamedTuple):
    """The result of a trial, for the study and for its record."""

    number: int
    state: TrialState
    values: list[float] | None
    params: Mapping[str, Any]
    facts: Mapping[str, Any]
    constraints: Mapping[str, float]
    """Metric → how much worse than the default, beyond the margin; feasible up to 0."""
    began: float
    """Unix seconds."""


class Reporter:
    """Report the intermediate values of a trial to Optuna, run after run: by step, or by seed (Wilcoxon)."""

    def __init__(self, search: Search, trial: Trial | None, jobs: Sequence[Job], known: Collection[int] = ()) -> None:
        kind = search.pruner.kind
        self._wanted = trial is not None and len(search.objectives) == 1
        self._prunes, self._by_seed = kind != "none", kind == "wilcoxon"
        self._trial: Any = trial
        self._search = search
        self._starts = [sum(job.steps for job in jobs[:index]) for index in range(len(jobs))]
        self._last = len(jobs) - 1 if self._by_seed else sum(job.steps for job in jobs)
        self._known = set(known)
        self._undecided = bool(self._known)  # an earlier worker may have died between report and pruning decision

    def look(self, index: int, job: Job, *, ended: bool) -> bool:
        """Report new values of a run; return whether to prune the trial (never once the run has `ended`)."""
        if self._by_seed or not self._wanted:
            return False
        points = [(self._starts[index] + at, value) for at, value in job.reports()]
        return self._add(points, prune=self._prunes and not ended)

    def finished(self, index: int, job: Job, *, prune: bool) -> bool:
        """Report a finished run, for a pruner over seeds; return whether to prune the trial (never without `prune`)."""
        if not (self._wanted and self._by_seed):
            return False
        return self._add([(index, mean([job.metrics()], next(iter(self._search.objectives))))], prune=prune)

    def _add(self, points: Iterable[tuple[int, float]], *, prune: bool) -> bool:
        if prune and self._undecided and self._hopeless():
            return True
        for step, value in points:
            if step not in self._known:
                self._trial.report(value, step)
                self._known.add(step)
                self._undecided = True  # until the pruner answers: the storage may fail in between
                if prune and self._hopeless():
                    return True
        return False

    def _hopeless(self) -> bool:
        """Whether Optuna prunes the trial at its last step; a complete trial is never pruned."""
        found = max(self._known) < self._last and self._trial.should_prune()
        self._undecided = False
        return found


class AskedError(Exception):
    """The worker was asked to stop now; another worker can resume its trial."""


class LostError(Exception):
    """The lease was lost with a connection, and another worker has taken it."""


class EndedError(Exception):
    """The trial ended without a value: failed or pruned. `wrong`: the search itself is, so every trial would fail."""

    def __init__(self, state: TrialState, text: str = "", *, wrong: bool = False) -> None:
        super().__init__(text)
        self.state, self.text, self.wrong = state, text, wrong


class Effort:
    """Seconds of work on a trial, earlier workers included, time of a suspended machine excluded."""

    def __init__(
        self,
        trial: Trial | None,
        provenance: Mapping[str, Any] | None = None,
        *,
        reported: Collection[int] = (),
    ) -> None:
        """`provenance`: other facts to store with the trial; `reported`: steps that earlier workers reported."""
        self.trial, self.reported, self._others = trial, reported, provenance or {}
        self._before = 0.0 if trial is None else worked(trial)
        self._began = self._noted = time.monotonic()

    @property
    def provenance(self) -> dict[str, Any]:
        """Facts about the trial so far."""
        return {**self._others, "seconds": self._before + time.monotonic() - self._began}

    def note(self, *, at_once: bool = False) -> None:
        """Store them in the study, if it is time."""
        now = time.monotonic()
        if self.trial is not None and (at_once or now - self._noted > NOTED):
            self._noted = now
            self.trial.set_user_attr(PROVENANCE, self.provenance)


class Runner:
    """Run the jobs of one worker."""

    def __init__(self, opened: OpenStudy, requests: Requests, say: Callable[[str], None]) -> None:
        self.opened, self.leases, self.search, self.where = opened, opened.leases, opened.search, opened.where
        self.requests, self.say = requests, say

    def persist(self, call: Callable[[], Any]) -> Any:
        """`call()`; wait while the storage is away, unless this worker is asked to stop."""

        def look() -> None:
            if self.requests.stop:
                raise AskedError

        return persist(call, f"storage {self.where.shown}", self.say, look=look)

    def run(self, jobs: Sequence[Job], effort: Effort) -> list[Mapping[str, float]]:
        """Run all jobs; return the metrics of each. Raises `EndedError`, `LostError`, `AskedError`."""
        trial = effort.trial
        title = "default arm" if trial is None else f"trial {trial.number}"
        logs = self.where.folder / self.opened.study.study_name
        logs.mkdir(parents=True, exist_ok=True)
        log = logs / f"{'default' if trial is None else trial.number}.log"
        reported = Reporter(self.search, trial, jobs, effort.reported)
        for index, job in enumerate(jobs):
            tries = self.search.retries
            whole = job.done()
            hopeless = partial(self.persist, partial(reported.look, index, job, ended=whole))
            while (ending := self._watched(job, log, effort, hopeless)).kind != DONE:
                if ending.kind in (CRASHED, KILLED) and tries:
                    tries -= 1
                    self.say(f"{title}: {last_line(ending.text)}; retrying ({log})")
                    continue
                if ending.kind == STOPPED:  # by another process, such as a scheduler
                    self.say(f"{title}: stopped by another process; resuming ({log})")
                    continue
                ending = ending._replace(text=scrub(ending.text))  # it is stored and published
                self.say(f"{title}: failed: {ending.text.rstrip()}")
                raise EndedError(TrialState.FAIL, ending.text, wrong=ending.kind == WRONG)
            self.persist(partial(reported.look, index, job, ended=True))
            try:
                prune = self.persist(partial(reported.finished, index, job, prune=not whole))
            except InputError as error:  # the run has not logged the objective
                raise EndedError(TrialState.FAIL, str(error), wrong=True) from None
            if prune:
                raise EndedError(TrialState.PRUNED)
        return [job.metrics() for job in jobs]

    def _watched(self, job: Job, log: Path, effort: Effort, hopeless: Callable[[], bool]) -> Ending:
        """Run a job in its own process; report values as they come."""
        child = Child(job.run, log)
        looked = time.monotonic()
        try:
            while (ending := child.ending(LOOK)) is None:
                if self.requests.stop:
                    raise AskedError
                if hopeless():
                    raise EndedError(TrialState.PRUNED)
                if time.monotonic() - looked > QUIET:
                    looked = time.monotonic()
                    with contextlib.suppress(*away()):  # the first worker to reconnect gets the lease
                        if not self.leases.held(BASELINE if effort.trial is None else effort.trial.number):
                            raise LostError
                        effort.note()
            return ending
        finally:
            child.stop()
            if child.ending(GRACE) is None:
                child.stop(9)
                child.ending(GRACE)


def last_line(text: str) -> str:
    """Last line of a traceback."""
    return text.rstrip().rpartition("\n")[2]


def mean(metrics: Sequence[Mapping[str, float]], name: str) -> float:
    """Mean of a metric over runs. Raises `InputError` if a run has not logged it."""
    for one in metrics:
        if name not in one:
            raise InputError(f"search: no run logs {name!r}{nearest(name, sorted(one))}")
    return math.fsum(one[name] for one in metrics) / len(metrics)
