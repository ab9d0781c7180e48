"""What a person sees of many runs: one table on a terminal, sparse lines in a log."""

import contextlib
import multiprocessing
import sys
import time
from collections.abc import Mapping
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table

EVERY, LINE_EVERY = 0.5, 30.0
"""Seconds between two looks, and between two lines in a log."""


class Progress:
    """How far one run is: written by its process, read by the one that shows it. It is a training loop's display."""

    def __init__(self) -> None:
        self._at = multiprocessing.get_context("fork").RawArray("d", 2)

    @property
    def share(self) -> float:
        """Of the work that is done, as far as is known."""
        done, total = self._at
        return done / total if total else 0.0

    def begin(self, done: int, total: int) -> None:
        """Start at update `done` of `total`."""
        self._at[:] = [done, total]

    def update(self, step: int, total: int, figures: Mapping[str, float]) -> None:
        """Be at `step`."""
        self._at[:] = [step, total]

    def epoch(self, epoch: int, step: int, total: int, figures: Mapping[str, Mapping[str, float]]) -> None:
        """Be at the end of an epoch."""
        self._at[:] = [step, total]

    def note(self, line: str) -> None:
        """Say a line to whoever listens."""
        print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Nothing is held."""


class Shown:
    """Shows how far the pieces of a work are, on stderr."""

    def __init__(self, title: str, *, total: int, found: int) -> None:
        """`found`: of `total` pieces, those that were done before."""
        self.title, self.total, self.found = title, total, found
        self.done, self.failed = found, 0
        self.running: dict[str, Progress] = {}
        self._began, self._looked = time.monotonic(), float("-inf")
        self._said = self._began
        console = Console(stderr=True)
        self._live = Live(console=console, auto_refresh=False, transient=True) if sys.stderr.isatty() else None

    def __enter__(self) -> "Shown":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, line: str) -> None:
        """A line beside the table."""
        if self._live is not None:
            self._live.console.print(line, markup=False, highlight=False)
            return
        with contextlib.suppress(BrokenPipeError):  # nobody listens: no reason to end
            print(line, file=sys.stderr, flush=True)

    def look(self) -> None:
        """Show how far it is, if it is time."""
        now = time.monotonic()
        if self._live is not None and now - self._looked >= EVERY:
            self._looked = now
            self._live.update(self._table(now), refresh=True)
        elif self._live is None and now - self._said >= LINE_EVERY:
            self._said = now
            self.say(self.in_words())

    def in_words(self) -> str:
        """How far it is, in one line."""
        left = self._left(time.monotonic())
        failed = f", {self.failed} failed" if self.failed else ""
        more = "" if left is None else f", about {_clock(left)} left"
        return f"{self.title}: {self.done} of {self.total} done, {len(self.running)} running{failed}{more}"

    def _left(self, now: float) -> float | None:
        """Seconds that the rest will take, if it goes on like that."""
        shares = sum(one.share for one in self.running.values())
        did = self.done + self.failed - self.found + shares
        rest = self.total - self.done - self.failed - shares
        return (now - self._began) / did * rest if did and rest else None

    def _table(self, now: float) -> Table:
        left = self._left(now)
        table = Table(title=f"{self.title} ({'?' if left is None else _clock(left)} left)", title_justify="left")
        for name in ("done", "running", "failed"):
            table.add_column(name)
        shown = "\n".join(
            f"{name} {one.share:.0%}" if one.share else name for name, one in list(self.running.items())[:20]
        )
        table.add_row(f"{self.done}/{self.total}", shown, str(self.failed))
        return table


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
