"""Progress of many runs: one table on a terminal, sparse lines in a log."""

import contextlib
import multiprocessing
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

EVERY, LINE_EVERY = 1.0, 30.0  # seconds between updates of the table, and between lines in a log
_LEAST = 1e-6  # of a piece: with less done, there is no speed


class Progress:
    """Progress of a run, in memory shared by its process (writes) and the displaying process (reads).

    Serves as the display of a training loop.
    """

    def __init__(self) -> None:
        self._at = multiprocessing.get_context("fork").RawArray("d", 4)

    @property
    def at(self) -> tuple[float, float]:
        """Finished updates, and total updates (0: unknown)."""
        done, total = self._at[:2]
        return done, total

    @property
    def peak(self) -> float:
        """The most bytes of a card that torch has reserved; 0 without a card, and before the first update."""
        return self._at[2]

    @property
    def share(self) -> float:
        """Finished share of the work; 0 if the total is unknown."""
        done, total = self.at
        return done / total if total else 0.0

    @property
    def share_before(self) -> float:
        """The share that was finished before: a resumed run does not begin at 0."""
        return self._at[3]

    def begin(self, done: float, total: float, before: float | None = None) -> None:
        """Set the progress to update `done` of `total`; `before`: the share that was finished before, if known."""
        if not self._at[1] and total:
            self._at[3] = done / total if before is None else before
        self._at[:2] = [done, total]

    def update(self, step: int, total: int, figures: Mapping[str, float]) -> None:
        """Set the progress to `step`, and measure."""
        self.begin(step, total)
        self.measure()

    def measure(self) -> None:
        """Note the memory that the process has taken on a card so far; call it when it has done some of its work."""
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is not None and cuda.is_initialized():
            self._at[2] = cuda.max_memory_reserved()

    def epoch(self, epoch: int, step: int, total: int, figures: Mapping[str, Mapping[str, float]]) -> None:
        """Set the progress to the end of an epoch."""
        self.begin(step, total)

    def note(self, line: str) -> None:
        """Print a line for the displaying process."""
        with contextlib.suppress(BrokenPipeError):  # the displaying process is gone
            print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


class Screen:
    """A table on a terminal that is updated in place, or lines on stderr."""

    def __init__(self) -> None:
        self.running: dict[str, Progress] = {}
        self._shown = self._printed = float("-inf")
        self._live: Any = None
        if sys.stderr.isatty():  # a log needs no rich
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
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
            return
        with contextlib.suppress(BrokenPipeError):  # a closed stderr must not end the command
            print(line, file=sys.stderr, flush=True)

    def look(self) -> None:
        """Show the progress if an update is due."""
        now = time.monotonic()
        if now - self._shown < EVERY:
            return
        self._shown = now
        if self._live is not None:
            self._live.update(self.table(), refresh=True)
        elif now - self._printed >= LINE_EVERY and (line := self.in_words()):
            self._printed = now
            self.say(line)

    def table(self) -> "RenderableType":
        """Return the progress as a table."""
        return ""

    def in_words(self) -> str:
        """Return the progress in one line; empty if there is nothing to say."""
        return ""


class PieceProgress(Screen):
    """Progress of the pieces of some work."""

    def __init__(self, title: str, *, total: int, found: int) -> None:
        """`found`: number of pieces, out of `total`, that were already done."""
        super().__init__()
        self.title, self.total, self.found = title, total, found
        self.done, self.failed = found, 0
        self._began = self._printed = time.monotonic()
        self._before, self._ended = dict[str, float](), 0.0
        """Shares of pieces that were finished before, which say nothing about the speed; what ended pieces did here."""

    def look(self) -> None:
        """Note what running pieces had done before, and show the progress if an update is due."""
        for name, one in self.running.items():
            if one.share:  # of the first process of a piece: what a later process finds done was done here
                self._before.setdefault(name, one.share_before)
        super().look()

    def ended(self, name: str, *, done: bool) -> None:
        """Count a piece that is done or has failed."""
        self.done += done
        self.failed += not done
        self._ended += 1 - self._before.get(name, 0.0)
        if done:
            self.say(self.in_words())

    def in_words(self) -> str:
        """Return the progress in one line."""
        left = self._left()
        failed = f", {self.failed} failed" if self.failed else ""
        more = "" if left is None else f", about {clock(left)} left"
        return f"{self.title}: {self.done} of {self.total} done, {len(self.running)} running{failed}{more}"

    def _left(self) -> float | None:
        """Return the estimated seconds until the end, at the speed so far."""
        # The process of a piece that takes the place of a killed one begins below what was finished before.
        here = (max(one.share - self._before.get(name, one.share_before), 0.0) for name, one in self.running.items())
        did = self._ended + sum(here)
        rest = self.total - self.done - self.failed - sum(one.share for one in self.running.values())
        return (time.monotonic() - self._began) / did * rest if did > _LEAST and rest else None

    def table(self) -> "Table":
        """Return a table: pieces done, running and failed, and the time left."""
        from rich.table import Table

        left = self._left()
        table = Table(title=f"{self.title} ({'?' if left is None else clock(left)} left)", title_justify="left")
        for name in ("done", "running", "failed"):
            table.add_column(name)
        shown = "\n".join(
            f"{name} {one.share:.0%}" if one.share else name for name, one in list(self.running.items())[:20]
        )
        table.add_row(f"{self.done}/{self.total}", shown, str(self.failed))
        return table


def clock(seconds: float) -> str:
    """Return a duration as text."""
    minutes, hours = seconds / 60, seconds / 3600
    return f"{hours:.1f} h" if hours >= 1 else f"{minutes:.0f} min" if minutes >= 2 else f"{seconds:.0f} s"
