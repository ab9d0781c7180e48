"""A trial's runs as its worker sees them: what they report on the way, and what the trial comes to."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from optuna.trial import Trial, TrialState

from isoscope.config.explain import nearest
from isoscope.config.search import Search
from isoscope.errors import InputError


class Job(Protocol):
    """One run of a trial."""

    digest: str
    steps: int
    """Values of its own that it reports at most."""

    def done(self) -> bool:
        """Whether it was done before: what it is worth costs nothing, and its trial is not ended early."""

    def run(self) -> None:
        """Do it, or go on with it, in a process of its own; SIGTERM ends it so that it can go on."""

    def reports(self) -> Iterable[tuple[int, float]]:
        """Step (1, 2, …) and value of the first objective, as far as they are known."""

    def figures(self) -> Mapping[str, float]:
        """Every metric it logged, once it is done."""


Plan = Callable[[Mapping[str, Any]], Sequence[Job]]
"""The runs of what was chosen."""


class Outcome(NamedTuple):
    """What a trial came to: told to the study, and noted in a record."""

    number: int
    state: TrialState
    values: list[float] | None
    params: Mapping[str, Any]
    facts: Mapping[str, Any]
    began: float
    """Unix seconds."""


class Wishes(Protocol):
    """What was asked of a worker from outside."""

    def finish(self) -> bool:
        """To begin no further trial."""

    def stop(self) -> bool:
        """To stop at once."""


class Reported:
    """Intermediate values of a trial, of one job after the other; over seeds, or over steps."""

    def __init__(self, search: Search, trial: Trial | None, jobs: Sequence[Job], known: Collection[int] = ()) -> None:
        kind = search.pruner.kind
        self.wanted = trial is not None and len(search.objectives) == 1
        self._prunes, self._by_seed = kind != "none", kind == "wilcoxon"
        self._trial, self._search = trial, search
        self._starts = [sum(job.steps for job in jobs[:index]) for index in range(len(jobs))]
        self._last = len(jobs) - 1 if self._by_seed else sum(job.steps for job in jobs)
        self._known = set(known)
        self._undecided = bool(self._known)  # whoever reported the last of them may not have lived to ask

    def look(self, index: int, job: Job, *, ended: bool) -> bool:
        """Report what is new of a job; whether the trial is to be pruned."""
        if self._by_seed:
            return False
        points = [(self._starts[index] + at, value) for at, value in job.reports()]
        return self._add(points, prune=self._prunes and not ended)

    def finished(self, index: int, job: Job, *, prune: bool) -> bool:
        """Report a job that is done, where seeds are compared; whether the trial is to be pruned (`prune`: if any)."""
        if not (self.wanted and self._by_seed):
            return False
        return self._add([(index, mean([job.figures()], next(iter(self._search.objectives))))], prune=prune)

    def _add(self, points: Iterable[tuple[int, float]], *, prune: bool) -> bool:
        assert self._trial is not None
        if prune and self._undecided and self._hopeless():
            return True
        for step, value in points:
            if step not in self._known:
                self._trial.report(value, step)
                self._known.add(step)
                self._undecided = True  # until it was asked: the storage may go away in between
                if prune and self._hopeless():
                    return True
        return False

    def _hopeless(self) -> bool:
        """Whether Optuna would end the trial at its last step; a whole one is worth its value."""
        assert self._trial is not None
        found = max(self._known) < self._last and self._trial.should_prune()
        self._undecided = False
        return found


def mean(figures: Sequence[Mapping[str, float]], name: str) -> float:
    """A metric's mean over runs. Raises `InputError` where one has not logged it."""
    for one in figures:
        if name not in one:
            raise InputError(f"search: no run logs {name!r}{nearest(name, sorted(one))}")
    return math.fsum(one[name] for one in figures) / len(figures)
