"""Show a run's progress: a bar with the time left on a terminal, a line per epoch in a log."""

import contextlib
import sys
import time
from typing import Protocol

from tqdm import tqdm


class Log(Protocol):
    """Where the loop logs points besides its output: the run's record."""

    def metric(self, name: str, value: float, *, step: int, epoch: int | None = None) -> None: ...


class Display(Protocol):
    """Where the loop shows progress: a bar on a terminal, lines in a log."""

    def update(self, step: int, total: int, metrics: dict[str, float]) -> None: ...

    def epoch(self, epoch: int, step: int, total: int, metrics: dict[str, dict[str, float]]) -> None: ...


class Mute:
    """The loop's `Display` and `Log` in a process with rank > 0: it shows and logs nothing."""

    def update(self, step: int, total: int, metrics: dict[str, float]) -> None: ...

    def epoch(self, epoch: int, step: int, total: int, metrics: dict[str, dict[str, float]]) -> None: ...

    def metric(self, name: str, value: float, *, step: int, epoch: int | None = None) -> None: ...


class Progressbar:
    """The loop's `Display`: one tqdm bar over all updates if stderr is a terminal, else a line per epoch."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.bar: tqdm | None = None

    def note(self, line: str) -> None:
        """Print a line to stderr; a closed pipe (`… 2>&1 | head`) does not end training."""
        with contextlib.suppress(BrokenPipeError):
            print(f"{self.title}: {line}", file=sys.stderr, flush=True)

    def begin(self, done: int, total: int) -> None:
        """Start the clock at update `done` of `total`."""
        self.start, self.began = done, time.monotonic()
        if done:
            self.note(f"resuming from step {done}/{total}")
        if sys.stderr.isatty():
            self.bar = tqdm(total=total, initial=done, desc=self.title, unit="step", dynamic_ncols=True)

    def update(self, step: int, total: int, metrics: dict[str, float]) -> None:
        """Move the bar to `step`."""
        if self.bar is not None:
            self.bar.set_postfix({name: f"{value:.3f}" for name, value in metrics.items()}, refresh=False)
            self.bar.update(step - self.bar.n)

    def epoch(self, epoch: int, step: int, total: int, metrics: dict[str, dict[str, float]]) -> None:
        """Print an epoch's metrics and the time left."""
        spent = time.monotonic() - self.began
        left = spent / max(step - self.start, 1) * (total - step)
        shown = {split: ", ".join(f"{name} {one:.3f}" for name, one in own.items()) for split, own in metrics.items()}
        line = (
            f"epoch {epoch}, step {step}/{total}: train {shown['train']}, "
            f"validation {shown['validation']} ({left:.0f} s left)"
        )
        if self.bar is not None:
            self.bar.update(step - self.bar.n)
            self.bar.write(f"{self.title}: {line}", file=sys.stderr)
        else:
            self.note(line)

    def close(self) -> None:
        """Close the bar and leave it on the screen."""
        if self.bar is not None:
            self.bar.close()
