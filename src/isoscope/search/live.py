"""A running search as a person sees it: a table on a terminal, a line every half minute in a log, Ctrl-C."""

import signal
from collections.abc import Callable, Iterable
from types import FrameType

from optuna.trial import FrozenTrial, TrialState
from rich.console import Group
from rich.table import Table

from isoscope.executor.live_table import Screen, clock
from isoscope.guard import StopSignal
from isoscope.search.status import Status, in_words, row, status
from isoscope.search.storage import away
from isoscope.search.study import OpenStudy


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

    def __init__(self, opened: OpenStudy, *, workers: int) -> None:
        super().__init__()
        self.opened, self.workers = opened, workers
        self._table, self._before = Group(), (-1, -1, -1)

    def say(self, line: str) -> None:
        """Print a line above the table."""
        super().say(f"isoscope: {line}")

    def _poll(self) -> tuple[Status, list[FrozenTrial]] | None:
        """The study's status and its trials; None while its storage is away, as the workers report."""
        try:
            trials = self.opened.study.get_trials(deepcopy=False)  # a finished trial is read once
            return status(self.opened.study, self.opened.search, workers=self.workers, trials=trials), trials
        except away():
            return None
        finally:
            self.opened.storage.engine.dispose()  # a process forked later must not inherit a connection

    def table(self) -> Group:
        """Counts, time left, best trials and running trials."""
        if polled := self._poll():
            self._table = Group(_summary(polled[0]), _running(polled[1]))
        return self._table

    def in_words(self) -> str:
        """The progress in one line, if a trial has ended since the last one."""
        if not (polled := self._poll()):
            return ""
        seen, before = polled[0], self._before
        self._before = (seen.complete, seen.pruned, seen.failed)
        return in_words(seen) if self._before != before else ""


def _summary(seen: Status) -> Table:
    table = Table(title=f"search {seen.study}", title_justify="left")
    for name in ("done", "running", "pruned", "failed", "time left", "best"):
        table.add_column(name)
    best = "\n".join(
        f"trial {number}: " + ", ".join(f"{name} {value:.4g}" for name, value in values.items())
        for number, values in list(seen.best.items())[:5]
    )
    left = "?" if seen.eta_seconds is None else clock(seen.eta_seconds)
    done = f"{seen.complete + seen.pruned + seen.failed}/{seen.budget}"
    table.add_row(done, str(seen.running), str(seen.pruned), str(seen.failed), left, best or "none yet")
    return table


def _running(trials: Iterable[FrozenTrial]) -> Table:
    table = Table(box=None, show_header=False)
    for trial in trials:
        if trial.state == TrialState.RUNNING:
            table.add_row(", ".join(f"{name} {value}" for name, value in row(trial).items()))
    return table
