"""What a person sees of a run: a bar with the time left on a terminal, a line per epoch in a log."""

import contextlib
import sys
import time
from typing import Protocol

from tqdm import tqdm


class Log(Protocol):
    """Where a loop's points go beside the output: the run's record."""

    def metric(self, name: str, value: float, *, step: int, epoch: int | None = None) -> None: ...


class Display(Protocol):
    """Where a person watches a loop: a bar on a terminal, lines in a log."""

    def update(self, step: int, total: int, figures: dict[str, float]) -> None: ...

    def epoch(self, epoch: int, step: int, total: int, figures: dict[str, dict[str, float]]) -> None: ...


class Mute:
    """The loop's `Display` and `Log` in a process that only computes its part."""

    def update(self, step: int, total: int, figures: dict[str, float]) -> None: ...

    def epoch(self, epoch: int, step: int, total: int, figures: dict[str, dict[str, float]]) -> None: ...

    def metric(self, name: str, value: float, *, step: int, epoch: int | None = None) -> None: ...


class Progressbar:
    """The loop's `Display`: one tqdm bar over all updates where stderr is a terminal, sparse lines elsewhere."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.bar: tqdm | None = None

    def note(self, line: str) -> None:
        """Say something before the first update."""
        _say(f"{self.title}: {line}")

    def begin(self, done: int, total: int) -> None:
        """Start the clock at update `done` of `total`."""
        self.start, self.began = done, time.monotonic()
        if done:
            self.note(f"going on from step {done}/{total}")
        if sys.stderr.isatty():
            self.bar = tqdm(total=total, initial=done, desc=self.title, unit="step", dynamic_ncols=True)

    def update(self, step: int, total: int, figures: dict[str, float]) -> None:
        """Move the bar to `step`."""
        if self.bar is not None:
            self.bar.set_postfix({name: f"{value:.3f}" for name, value in figures.items()}, refresh=False)
            self.bar.update(step - self.bar.n)

    def epoch(self, epoch: int, step: int, total: int, figures: dict[str, dict[str, float]]) -> None:
        """Say how an epoch went, and how long the rest will take."""
        spent = time.monotonic() - self.began
        left = spent / max(step - self.start, 1) * (total - step)
        shown = {split: ", ".join(f"{name} {one:.3f}" for name, one in own.items()) for split, own in figures.items()}
        line = (
            f"{self.title}: epoch {epoch}, step {step}/{total}: train {shown['train']}, "
            f"validation {shown['validation']} ({left:.0f} s left)"
        )
        if self.bar is not None:
            self.bar.update(step - self.bar.n)
            self.bar.write(line, file=sys.stderr)
        else:
            _say(line)

    def close(self) -> None:
        """Leave the bar as it is."""
        if self.bar is not None:
            self.bar.close()


def _say(line: str) -> None:
    """A line to who still listens: a pipe that was closed (`… 2>&1 | head`) ends no training."""
    with contextlib.suppress(BrokenPipeError):
        print(line, file=sys.stderr, flush=True)
