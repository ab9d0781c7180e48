"""Progress of a search: trial counts, best trials, time left; a live table on a terminal, lines in a log, Ctrl-C."""

import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NamedTuple

import optuna
from optuna.trial import FrozenTrial, TrialState
from rich.console import Group
from rich.table import Table

from isoscope.base.processes import StopSignal
from isoscope.platform.config.searching import Search
from isoscope.platform.executor.live_table import Screen, clock
from isoscope.platform.search.outcomes import front, knee, worked
from isoscope.platform.search.space import wanted
from isoscope.platform.search.storage import TROUBLE
from isoscope.platform.search.study import HeldStudy, spent


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
    """Number of the trial that `isoscope search adopt` takes; None if none stands out."""
    params: dict[int, dict[str, object]]
    """Number → parameters, of the trials in `best`."""
    seconds: float
    """Seconds of work, all trials together."""
    eta_seconds: float | None
    """Seconds until the budget is spent, at the speed so far; None before the first trial has ended."""
    done: bool
    """Whether the budget is spent and every trial has ended."""

    @property
    def ended(self) -> int:
        """Number of trials that have ended."""
        return self.complete + self.pruned + self.failed


def status(
    study: optuna.Study, search: Search, *, workers: int = 1, trials: Sequence[FrozenTrial] | None = None
) -> Status:
    """Progress of a study; `workers`, or as many as run, share what is left; `trials`: all of its trials, if read."""
    trials = study.get_trials(deepcopy=False) if trials is None else trials
    counts = Counter(trial.state for trial in trials)
    best = front(study, trials)
    suggested, shown = knee(best, study.directions), best if len(study.directions) > 1 else best[:1]
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
        {trial.number: dict(zip(study.metric_names or (), trial.values, strict=True)) for trial in shown},
        suggested.number if suggested else None,
        {trial.number: trial.params for trial in shown},
        sum(worked(trial) for trial in trials),
        0.0 if done else _left(search, trials, max(workers, counts[TrialState.RUNNING])),
        done,
    )


def _left(search: Search, trials: Sequence[FrozenTrial], workers: int) -> float | None:
    """Seconds until either budget is spent, if trials stay as long as so far; None before the first has ended."""
    ended = [worked(trial) for trial in trials if trial.state.is_finished()]
    if not ended:
        return None
    begun = sum(worked(trial) for trial in trials if not trial.state.is_finished())
    left = sum(ended) / len(ended) * (wanted(search) - len(ended)) - begun
    if search.budget.hours is not None:
        left = min(left, 3600 * search.budget.hours - sum(ended) - begun)
    return max(left, 0.0) / max(workers, 1)


def _best(one: Status, most: int) -> list[str]:
    return [
        f"trial {number}: " + ", ".join(f"{name} {value:.4g}" for name, value in values.items())
        for number, values in list(one.best.items())[:most]
    ]


def in_words(one: Status) -> str:
    """One line for a log."""
    best = "; ".join(_best(one, 3)) or ("none meets the constraints" if one.complete else "none yet")
    best += f" and {len(one.best) - 3} more on the front" if len(one.best) > 3 else ""
    if len(one.best) > 1:
        best += f"; suggested: {'none' if one.suggested is None else f'trial {one.suggested}'}"
    left = "" if one.eta_seconds is None or one.done else f", about {clock(one.eta_seconds)} left"
    within = one.ended <= one.budget
    done = f"{one.ended} of {one.budget} trials done" if within else f"{one.ended} trials done, budget {one.budget}"
    more = f"{one.running} running{left}; best: {best}"
    return f"search {one.study}: {done} ({one.pruned} pruned, {one.failed} failed), {more}"


def in_detail(one: Status) -> str:
    """Several lines: that for a log, and the parameters of the best trials."""
    told = {
        number: "; ".join(f"{name} {_short(value)}" for name, value in of.items()) for number, of in one.params.items()
    }
    return "\n".join([in_words(one), *(f"  trial {number}: {params}" for number, params in told.items())])


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


class Interrupts(StopSignal):
    """Count Ctrl-C: the first finishes running trials, the second stops now. SIGTERM and SIGHUP stop now."""

    stop = False

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.stop = self.stop or self.finish or number != signal.SIGINT
        self.received = number
        self._say(
            "stopping; run the same command to resume"
            if self.stop
            else "finishing running trials, starting no other; press Ctrl-C again to stop now"
        )


class LiveStatus(Screen):
    """Progress of a study, polled."""

    def __init__(self, one: HeldStudy, *, workers: int) -> None:
        super().__init__()
        self.one, self.workers = one, workers
        self._table, self._ended = Group(), -1

    def say(self, line: str) -> None:
        """Print a line above the table."""
        super().say(f"isoscope: {line}")

    def _poll(self) -> tuple[Status, list[FrozenTrial]] | None:
        """The study's status and its trials; None while its storage is away, as the driver reports."""
        try:
            trials = self.one.study.get_trials(deepcopy=False)  # a finished trial is read once
            return status(self.one.study, self.one.search, workers=self.workers, trials=trials), trials
        except TROUBLE:
            return None

    def table(self) -> Group:
        """Counts, time left, best trials and running trials."""
        if polled := self._poll():
            seen, trials = polled
            names = ("done", "running", "pruned", "failed", "time left", "best")
            summary = Table(*names, title=f"search {seen.study}", title_justify="left")
            left = "?" if seen.eta_seconds is None else clock(seen.eta_seconds)
            counts = (f"{seen.ended}/{seen.budget}", *map(str, (seen.running, seen.pruned, seen.failed)))
            summary.add_row(*counts, left, "\n".join(_best(seen, 5)) or "none yet")
            running = Table(box=None, show_header=False)
            for trial in trials:
                if trial.state == TrialState.RUNNING and trial.datetime_start:
                    seconds = max(0.0, time.time() - trial.datetime_start.timestamp())
                    shown = {"trial": trial.number, "for": clock(seconds), **trial.params}
                    running.add_row(", ".join(f"{name} {value}" for name, value in shown.items()))
            self._table = Group(summary, running)
        return self._table

    def in_words(self) -> str:
        """The progress in one line, if a trial has ended since the last call."""
        polled = self._poll()
        if polled is None or polled[0].ended == self._ended:
            return ""
        self._ended = polled[0].ended
        return in_words(polled[0])
