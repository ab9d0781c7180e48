"""Run the training runs of a trial: each in its own process, watched, retried after a crash, pruned."""

import contextlib
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from optuna.trial import Trial, TrialState

from isoscope.platform.config.explain import nearest
from isoscope.platform.config.logged import logged_by
from isoscope.platform.config.searching import Search
from isoscope.platform.executor.child import CRASHED, DONE, KILLED, STOPPED, WRONG, Child, Ending
from isoscope.platform.executor.execute import Requests
from isoscope.platform.runs.secrets import scrub
from isoscope.platform.search.leases import BASELINE
from isoscope.platform.search.outcomes import PROVENANCE, worked
from isoscope.platform.search.storage import AWAY, persist
from isoscope.platform.search.study import OpenStudy

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


class Reporter:
    """Report the intermediate values of a trial to Optuna, run after run: by step, or by seed (Wilcoxon)."""

    def __init__(self, search: Search, effort: "Effort", jobs: Sequence[Job]) -> None:
        kind = search.pruner.kind
        self._trial: Any = effort.trial if len(search.objectives) == 1 else None
        self._prunes, self._by_seed = kind != "none", kind == "wilcoxon"
        self._objective = next(iter(search.objectives))
        self._steps = [job.steps for job in jobs]
        self._last = len(jobs) - 1 if self._by_seed else sum(self._steps)
        self._known = set(effort.reported)
        self._undecided = bool(self._known)  # an earlier worker may have died between report and pruning decision

    def look(self, index: int, job: Job, *, prune: bool, ended: bool = False) -> bool:
        """Report new values of a run; return whether to prune the trial: never without `prune`.

        A run that has `ended` is a value for a pruner over seeds; other pruners stop a run only before its end.
        """
        if self._trial is None or (self._by_seed and not ended):
            return False
        if self._by_seed:
            points = [(index, mean([job.metrics()], self._objective))]
        else:
            points = [(sum(self._steps[:index]) + step, value) for step, value in job.reports()]
        prune = prune and self._prunes and ended == self._by_seed
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
        self.state, self.wrong = state, wrong


class Effort:
    """Seconds of work on a trial, earlier workers included, time of a suspended machine excluded."""

    def __init__(self, trial: Trial | None, reported: Collection[int] = ()) -> None:
        """`trial`: None for the default arm; `reported`: steps that earlier workers reported."""
        self.trial: Any = trial
        self.reported = reported
        self.title = "default arm" if trial is None else f"trial {trial.number}"
        self.facts: dict[str, Any] = {}
        """Other facts to store with the trial."""
        self._before = 0.0 if trial is None else worked(trial)
        self._began = self._noted = time.monotonic()

    @property
    def provenance(self) -> dict[str, Any]:
        """Facts about the trial so far."""
        return {**self.facts, "seconds": self._before + time.monotonic() - self._began}

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
        name = "default" if effort.trial is None else str(effort.trial.number)
        log = self.where.folder / self.opened.study.study_name / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        reporter = Reporter(self.search, effort, jobs)
        for index, job in enumerate(jobs):
            tries = self.search.retries
            look = partial(reporter.look, index, job, prune=not job.done())
            while (ending := self._watched(job, log, effort, partial(self.persist, look))).kind != DONE:
                if ending.kind == STOPPED:  # by another process, such as a scheduler
                    self.say(f"{effort.title}: stopped by another process; resuming ({log})")
                elif ending.kind in (CRASHED, KILLED) and tries:
                    tries -= 1
                    self.say(f"{effort.title}: {last_line(ending.text)}; retrying ({log})")
                else:
                    text = scrub(ending.text)  # it is stored and published
                    self.say(f"{effort.title}: failed: {text.rstrip()}")
                    raise EndedError(TrialState.FAIL, text, wrong=ending.kind == WRONG)
            if self.persist(partial(look, ended=True)):
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
                    with contextlib.suppress(*AWAY):  # the first worker to reconnect gets the lease
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
    """Mean of a metric over runs. Raises `EndedError` if a run has not logged it."""
    for one in metrics:
        if name not in one:
            clause = logged_by(name)
            text = f"search: no run logs {name!r}{nearest(name, sorted(one))}{f' ({clause})' if clause else ''}"
            raise EndedError(TrialState.FAIL, text, wrong=True)
    return math.fsum(one[name] for one in metrics) / len(metrics)


def means_of(search: Search, metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mean of each objective and constraint of a search over runs. Raises `EndedError` if a run lacks a metric."""
    return {name: mean(metrics, name) for name in (*search.objectives, *search.constraints)}


def judged(
    search: Search, means: Mapping[str, float], default: Mapping[str, float]
) -> tuple[list[float], dict[str, float]]:
    """Values and constraints of a trial, from its means and those of the default arm; above 0: a broken constraint."""
    constraints = {
        name: (default[name] - means[name]) * (1 if one.better == "maximise" else -1) - one.margin
        for name, one in search.constraints.items()
    }
    return [means[name] for name in search.objectives], constraints
