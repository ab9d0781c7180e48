"""Several workers on one machine: started, replaced where one is killed, and told to finish or to stop."""

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
"""Seconds that workers have to stop: a run of theirs saves its state."""
BRIEF, TRIES = 1.0, 20
"""Seconds, and so many workers in a row that may be killed before they have lived so long."""


class Told:
    """What a worker was told by signals: to begin nothing more (SIGUSR1), or to stop at once (SIGTERM)."""

    def __init__(self) -> None:
        self._finish = self._stop = False
        signal.signal(FINISH, self._note)
        signal.signal(STOP, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._finish = True
        self._stop = self._stop or number == STOP

    def finish(self) -> bool:
        """Whether to begin no further trial."""
        return self._finish

    def stop(self) -> bool:
        """Whether to stop at once."""
        return self._stop


class Interrupts:
    """Ctrl-C and its kin, counted: once to finish, twice to stop; SIGTERM and a hang-up stop at once."""

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
            "stopping; the same command goes on"
            if self.stop
            else "begun trials are finished, no other is begun; Ctrl-C again stops now"
        )


def work(start: Callable[[Told], None], count: int, *, asked: Interrupts, look: Callable[[], None]) -> None:
    """Keep `count` processes at `start` until all have ended by themselves; `look` is called in between.

    One that somebody else kills or stops is replaced, unless many end young. Raises what a worker raises, after the
    others have stopped.
    """

    def worker_of_its_own() -> None:
        told = Told()
        start(told)
        if told.stop():
            raise StoppedError(STOP, "")  # the parent has the words

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
                    continue  # by us, or with a trial that whoever goes on takes over
                if broken_off:
                    stillborn = stillborn + 1 if time.monotonic() - begun.pop(worker) < BRIEF else 0
                if broken_off and stillborn < TRIES:
                    how = f" ({ending.text})" if ending.text else ""
                    asked.say(f"a worker was {ending.kind} from outside{how}: another takes its place")
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
