"""Progress of a running search: a table on a terminal, a line every half minute in a log."""

import sys
import time
from collections.abc import Iterable
from types import TracebackType

from optuna.trial import FrozenTrial, TrialState
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from isoscope.search.status import Status, clock, in_words, row, status
from isoscope.search.storage import away
from isoscope.search.study import OpenStudy

EVERY, LINE_EVERY = 1.0, 30.0
"""Seconds between polls of the study, and between lines in a log."""


class LiveStatus:
    """Poll a study and show its progress on stderr."""

    def __init__(self, opened: OpenStudy, *, workers: int) -> None:
        self.opened, self.workers = opened, workers
        self._looked = self._said = float("-inf")
        self._before: tuple[int, ...] | None = None
        console = Console(stderr=True)
        self._live = Live(console=console, auto_refresh=False, transient=True) if sys.stderr.isatty() else None

    def __enter__(self) -> "LiveStatus":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, line: str) -> None:
        """Print a line above the table."""
        if self._live is not None:
            self._live.console.print(line, markup=False, highlight=False)
        else:
            print(f"isoscope: {line}", file=sys.stderr, flush=True)

    def look(self) -> None:
        """Show the progress, if it is time."""
        now = time.monotonic()
        if now - self._looked < EVERY:
            return
        self._looked = now
        try:
            trials = self.opened.study.get_trials(deepcopy=False)  # a finished trial is read once
            seen = status(self.opened.study, self.opened.search, workers=self.workers, trials=trials)
        except away():  # the workers report it
            return
        finally:
            self.opened.storage.engine.dispose()  # a process forked later must not inherit a connection
        if self._live is not None:
            self._live.update(Group(_summary(seen), _running(trials)), refresh=True)
            return
        counts = (seen.complete, seen.pruned, seen.failed)
        if counts != self._before and now - self._said >= LINE_EVERY:
            self._said, self._before = now, counts
            self.say(in_words(seen))


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
