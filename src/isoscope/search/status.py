"""Progress of a search: trial counts, best trials so far, time left."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import optuna
from optuna.trial import FrozenTrial, TrialState

from isoscope.config.grid import wanted
from isoscope.config.searching import Search
from isoscope.executor.live_table import clock
from isoscope.search.outcomes import best, front, knee, objectives
from isoscope.search.study import spent
from isoscope.search.trial_notes import worked

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


class Status(NamedTuple):
    """Progress of a study: trials by state, best trials, seconds left."""

    study: str
    trials: int
    budget: int
    complete: int
    running: int
    pruned: int
    failed: int
    waiting: int
    best: dict[int, dict[str, float]]
    """Number → objectives, of the best trial or the Pareto front; feasible trials only."""
    suggested: int | None
    """Number of the trial that `isoscope search adopt` takes."""
    seconds: float
    """Seconds of work, all trials together."""
    eta_seconds: float | None
    """Seconds until the budget is spent, at the speed so far; None before the first trial has ended."""
    done: bool
    """Whether the budget is spent and every trial has ended."""


def status(
    study: optuna.Study, search: Search, *, workers: int = 1, trials: Sequence[FrozenTrial] | None = None
) -> Status:
    """Progress of a study; `workers` share the remaining work; `trials`: all of its trials, if already read."""
    trials = study.get_trials(deepcopy=False) if trials is None else trials
    counts = {state: sum(trial.state == state for trial in trials) for state in TrialState}
    finished = sum(counts[state] for state in FINISHED)
    seconds = sum(worked(trial) or 0.0 for trial in trials)
    found = _best(study, trials)
    suggested = knee(found, study.directions)
    done = spent(trials, search) and not counts[TrialState.RUNNING]
    return Status(
        study.study_name,
        len(trials) - counts[TrialState.WAITING],
        wanted(search),
        counts[TrialState.COMPLETE],
        counts[TrialState.RUNNING],
        counts[TrialState.PRUNED],
        counts[TrialState.FAIL],
        counts[TrialState.WAITING],
        {trial.number: dict(zip(objectives(study), trial.values, strict=True)) for trial in found},
        suggested.number if suggested else None,
        seconds,
        0.0 if done else _left(search, trials) / max(workers, 1) if finished else None,
        done,
    )


def _best(study: optuna.Study, trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    if len(study.directions) > 1:
        return front(study, trials)
    found = best(study, trials)
    return [] if found is None else [found]


def _left(search: Search, trials: Sequence[FrozenTrial]) -> float:
    """Seconds of work until either budget is spent, if trials stay as long as so far."""
    ended = [worked(trial) or 0.0 for trial in trials if trial.state in FINISHED]
    begun = sum(worked(trial) or 0.0 for trial in trials if trial.state not in FINISHED)
    left = sum(ended) / len(ended) * (wanted(search) - len(ended)) - begun
    hours = search.budget.hours
    return max(left if hours is None else min(left, 3600 * hours - sum(ended) - begun), 0.0)


def in_words(one: Status) -> str:
    """One line for a log."""
    best = "; ".join(
        f"trial {number}: " + ", ".join(f"{name} {value:.4g}" for name, value in values.items())
        for number, values in list(one.best.items())[:3]
    )
    best += f" and {len(one.best) - 3} more on the front" if len(one.best) > 3 else ""
    if len(one.best) > 1:
        best += f"; suggested: trial {one.suggested}"
    left = "" if one.eta_seconds is None or one.done else f", about {clock(one.eta_seconds)} left"
    done = one.complete + one.pruned + one.failed
    of = f"{done} of {one.budget} trials done" if done <= one.budget else f"{done} trials done, budget {one.budget}"
    return (
        f"search {one.study}: {of} ({one.pruned} pruned, {one.failed} failed), {one.running} running{left}; "
        f"best: {best or 'none yet'}"
    )


def since(trial: FrozenTrial) -> float:
    """Seconds since a trial started."""
    return 0.0 if trial.datetime_start is None else max(0.0, time.time() - trial.datetime_start.timestamp())


def row(trial: FrozenTrial) -> dict[str, Any]:
    """A running trial as a table row."""
    return {"trial": trial.number, "for": clock(since(trial)), **trial.params}
