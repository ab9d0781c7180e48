"""The runs of a trial as its worker sees them: intermediate values, and the outcome of the trial."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from optuna.trial import Trial, TrialState

from isoscope.config.explain import nearest
from isoscope.config.searching import Search
from isoscope.errors import InputError


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
    began: float
    """Unix seconds."""


class Reporter:
    """Report the intermediate values of a trial to Optuna, run after run: by step, or by seed (Wilcoxon)."""

    def __init__(self, search: Search, trial: Trial | None, jobs: Sequence[Job], known: Collection[int] = ()) -> None:
        kind = search.pruner.kind
        self.wanted = trial is not None and len(search.objectives) == 1
        self._prunes, self._by_seed = kind != "none", kind == "wilcoxon"
        self._trial, self._search = trial, search
        self._starts = [sum(job.steps for job in jobs[:index]) for index in range(len(jobs))]
        self._last = len(jobs) - 1 if self._by_seed else sum(job.steps for job in jobs)
        self._known = set(known)
        self._undecided = bool(self._known)  # an earlier worker may have died between report and pruning decision

    def look(self, index: int, job: Job, *, ended: bool) -> bool:
        """Report new values of a run; return whether to prune the trial."""
        if self._by_seed:
            return False
        points = [(self._starts[index] + at, value) for at, value in job.reports()]
        return self._add(points, prune=self._prunes and not ended)

    def finished(self, index: int, job: Job, *, prune: bool) -> bool:
        """Report a finished run, for a pruner over seeds; return whether to prune the trial (never without `prune`)."""
        if not (self.wanted and self._by_seed):
            return False
        return self._add([(index, mean([job.metrics()], next(iter(self._search.objectives))))], prune=prune)

    def _add(self, points: Iterable[tuple[int, float]], *, prune: bool) -> bool:
        assert self._trial is not None
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
        assert self._trial is not None
        found = max(self._known) < self._last and self._trial.should_prune()
        self._undecided = False
        return found


def mean(metrics: Sequence[Mapping[str, float]], name: str) -> float:
    """Mean of a metric over runs. Raises `InputError` if a run has not logged it."""
    for one in metrics:
        if name not in one:
            raise InputError(f"search: no run logs {name!r}{nearest(name, sorted(one))}")
    return math.fsum(one[name] for one in metrics) / len(metrics)
