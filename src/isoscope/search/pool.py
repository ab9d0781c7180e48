"""Run several workers on one machine: start them, replace killed workers, pass on Ctrl-C."""

import signal
import time
from collections.abc import Callable
from types import FrameType

from isoscope.errors import InputError, RunError
from isoscope.guard import StoppedError
from isoscope.search import children
from isoscope.search.children import Child

FINISH, STOP = signal.SIGUSR1, signal.SIGTERM
TICK = 0.05
GRACE = 60.0
"""Seconds for workers to stop: a run saves its state first."""
BRIEF, TRIES = 1.0, 20
"""`TRIES` workers in a row may die younger than `BRIEF` seconds; then the search ends."""


class SignalRequests:
    """Stop requests that a worker received by signal: start no trial (SIGUSR1), or stop now (SIGTERM)."""

    def __init__(self) -> None:
        self._finish = self._stop = False
        signal.signal(FINISH, self._note)
        signal.signal(STOP, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._finish = True
        self._stop = self._stop or number == STOP

    def finish(self) -> bool:
        """Whether to start no further trial."""
        return self._finish

    def stop(self) -> bool:
        """Whether to stop now."""
        return self._stop


class Interrupts:
    """Count Ctrl-C: the first finishes running trials, the second stops now. SIGTERM and SIGHUP stop now."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.received: int | None = None
        self.finish = self.stop = False

    def __enter__(self) -> "Interrupts":
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        self._before = {number: signal.signal(number, self._note) for number in numbers}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self.stop = self.stop or self.finish or number != signal.SIGINT
        self.finish = True
        self.say(
            "stopping; run the same command to resume"
            if self.stop
            else "finishing running trials, starting no other; press Ctrl-C again to stop now"
        )


def work(start: Callable[[SignalRequests], None], count: int, *, asked: Interrupts, look: Callable[[], None]) -> None:
    """Keep `count` processes running `start` until all have finished; call `look` in between.

    A worker killed or stopped by another process is replaced, unless many die young. Raises a worker's error after
    the others have stopped.
    """

    def worker_of_its_own() -> None:
        told = SignalRequests()
        start(told)
        if told.stop():
            raise StoppedError(STOP, "")  # the parent prints the message

    workers = [Child(worker_of_its_own) for _ in range(count)]
    begun, stillborn = dict.fromkeys(workers, time.monotonic()), 0
    wrong: Exception | None = None
    passed_on: set[int] = set()
    deadline: float | None = None
    try:
        while workers:
            for worker in list(workers):
                ending = worker.ending(TICK / len(workers))
                if ending is None:
                    continue
                workers.remove(worker)
                broken_off = ending.kind in (children.KILLED, children.STOPPED)
                if broken_off and (asked.finish or wrong is not None):
                    continue  # stopped by us; the next worker takes over its trial
                if broken_off:
                    stillborn = stillborn + 1 if time.monotonic() - begun.pop(worker) < BRIEF else 0
                if broken_off and stillborn < TRIES:
                    how = f" ({ending.text})" if ending.text else ""
                    asked.say(f"a worker was {ending.kind} by another process{how}: replaced")
                    replacement = Child(worker_of_its_own)
                    begun[replacement] = time.monotonic()
                    workers.append(replacement)
                elif ending.kind != children.DONE:
                    kind = InputError if ending.kind == children.WRONG else RunError
                    wrong = wrong or kind(ending.text.rstrip())
            number = STOP if asked.stop or wrong else FINISH if asked.finish else None
            if number is not None and number not in passed_on:
                passed_on.add(number)
                for worker in workers:
                    worker.stop(number)
            if number == STOP:
                deadline = deadline or time.monotonic() + GRACE
                if time.monotonic() > deadline:
                    for worker in workers:
                        worker.stop(signal.SIGKILL)
            look()
    finally:
        for worker in workers:
            worker.stop(signal.SIGKILL)
    if wrong is not None:
        raise wrong
