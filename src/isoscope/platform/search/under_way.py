"""A trial under way: its runs, one after another, the values that it reports, its pruning, its seconds of work."""

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from optuna.trial import Trial

from isoscope.base.errors import InputError
from isoscope.platform.config.declared import logged_by
from isoscope.platform.config.explain import nearest
from isoscope.platform.config.searching import Search
from isoscope.platform.executor.child import CANCELLED, CRASHED, CROWDED, KILLED, LOST, STOPPED, Ending
from isoscope.platform.executor.execute import TRIES
from isoscope.platform.executor.live_table import Progress
from isoscope.platform.search.outcomes import PROVENANCE, worked

NOTED = 60.0  # seconds of work that a killed search may leave unrecorded


class Job(Protocol):
    """One run of a trial."""

    digest: str
    steps: int
    """Maximum number of values that it reports."""
    do: Callable[[Progress], str]
    """Run or resume it, in its own process, perhaps on another node; SIGTERM stops it so that it can resume."""
    arguments: tuple[str, ...]
    """Of the command that does it; see `Piece`."""

    def done(self) -> bool:
        """Whether it was finished before; its trial is then not pruned."""

    def reports(self) -> Iterable[tuple[int, float]]:
        """Step (1, 2, …) and value of the first objective so far."""

    def metrics(self) -> Mapping[str, float]:
        """All metrics, once it is done."""


Plan = Callable[[Mapping[str, Any]], Sequence[Job]]
"""Chosen values → runs of the trial."""


class UnderWay:
    """A trial under way, or the default arm (`trial` None). `pruned`: its run was stopped."""

    def __init__(
        self,
        search: Search,
        trial: Trial | None,
        jobs: Sequence[Job],
        facts: Mapping[str, Any],
        reported: Collection[int] = (),
    ) -> None:
        """`facts`: to store with the trial; `reported`: steps that it reported before it was interrupted."""
        self.search, self.jobs, self.index, self.pruned = search, jobs, 0, False
        self.trial: Any = trial
        self.title = "default arm" if trial is None else f"trial {trial.number}"
        steps = sum(job.steps for job in jobs)
        self.facts = {**facts, "digests": [job.digest for job in jobs], "steps": steps}
        self._before = 0.0 if trial is None else worked(trial)
        self._since: float | None = None
        self._noted = -math.inf
        self._by_seed, self._tries = search.by_seed, Counter[bool]()
        self._reported = set(reported)
        self._undecided = bool(reported)  # the search may have died between a report and the decision to prune
        self._reused = jobs[0].done()

    @property
    def job(self) -> Job:
        """The run at work."""
        return self.jobs[self.index]

    @property
    def provenance(self) -> dict[str, Any]:
        """Facts about the trial so far."""
        now = time.monotonic()
        seconds = self._before + (now - self._since if self._since is not None else 0.0)
        ended = sum(job.steps for job in self.jobs[: self.index + 1])
        return {**self.facts, "seconds": seconds, "epochs": ended if self._by_seed else len(self._reported)}

    def clock(self, *, at_work: bool) -> None:
        """Start or stop to count its seconds: a job that waits in a queue does not work."""
        now = time.monotonic()
        if self._since is not None:
            self._before += now - self._since
        self._since = now if at_work else None

    def note(self, *, at_once: bool = False) -> None:
        """Store them in the study, if it is time."""
        now = time.monotonic()
        if self.trial is not None and (at_once or now - self._noted > NOTED):
            self._noted = now
            self.trial.set_user_attr(PROVENANCE, self.provenance)

    def advance(self) -> bool:
        """Turn to the next run; return False if there is none."""
        if self.index + 1 == len(self.jobs):
            return False
        self.index += 1
        self._tries.clear()
        self._reused = self.job.done()
        return True

    def again(self, ending: Ending) -> bool:
        """Whether to repeat a run that has ended so: a crash uses up a retry, a stop from outside does not."""
        if ending.kind not in (CRASHED, KILLED, LOST, CANCELLED):
            return ending.kind in (STOPPED, CROWDED)
        lost = ending.kind in (LOST, CANCELLED)
        self._tries[lost] += 1
        return self._tries[lost] <= (TRIES if lost else self.search.retries)

    def hopeless(self, *, ended: bool = False) -> bool:
        """Report new values of a trial with one objective to Optuna; return whether to prune it.

        A run that has `ended` is a value for a pruner over seeds; other pruners stop a run only before its end. A trial
        of a reused run is not pruned.
        """
        if self.trial is None or len(self.search.objectives) > 1 or (self._by_seed and not ended):
            return False
        prunes = self.search.pruner.kind != "none" and not self._reused and ended == self._by_seed
        if prunes and self._undecided and self._decided():
            return True
        for step, value in self._points():
            if step not in self._reported:
                self.trial.report(value, step)
                self._reported.add(step)
                self._undecided = True  # until the pruner answers: the storage may fail in between
                if prunes and self._decided():
                    return True
        return False

    def _points(self) -> list[tuple[int, float]]:
        """Values of the run at work by step of the trial: epochs, seed after seed; or by seed."""
        if self._by_seed:
            return [(self.index + 1, mean([self.job.metrics()], next(iter(self.search.objectives))))]
        before = sum(job.steps for job in self.jobs[: self.index])
        return [(before + step, value) for step, value in self.job.reports()]

    def _decided(self) -> bool:
        """Whether Optuna prunes the trial at its last step; a complete trial is never pruned."""
        last = len(self.jobs) if self._by_seed else self.facts["steps"]
        found: bool = max(self._reported) < last and self.trial.should_prune()
        self._undecided = False
        return found


def mean(metrics: Sequence[Mapping[str, float]], name: str) -> float:
    """Mean of a metric over runs. Raises `InputError` if a run has not logged it."""
    for one in metrics:
        if name not in one:
            clause = logged_by(name)
            raise InputError(
                f"search: no run logs {name!r}{nearest(name, sorted(one))}{f' ({clause})' if clause else ''}"
            )
    return math.fsum(one[name] for one in metrics) / len(metrics)


def means_of(search: Search, metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mean of each objective and constraint of a search over runs. Raises `InputError` if a run lacks a metric."""
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
