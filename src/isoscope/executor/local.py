"""Pieces of work side by side on this machine, each in a process of its own."""

import os
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from isoscope.errors import RunError
from isoscope.executor import forked
from isoscope.executor.forked import Forked
from isoscope.executor.progress import Progress, Shown
from isoscope.guard import StoppedError, StopSignal

TICK = 0.05
GRACE = 60.0
"""Seconds that the processes have to stop: each saves the state of its run."""
TRIES = 3
"""Processes of one piece that may be killed before it counts as failed."""


class Piece(NamedTuple):
    """Work that can be killed at any moment, and goes on when it is done again."""

    name: str
    do: Callable[[Progress], str]


def room(threads: int | None, *, device: str) -> int:
    """How many runs of so many threads (None: all cores) fit side by side; on a GPU one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // threads) if threads and device == "cpu" else 1


def side_by_side(
    pieces: Sequence[Piece], *, title: str, workers: int, stop: StopSignal, found: int = 0
) -> dict[str, str]:
    """Do all pieces, so many at once, and return what came of each by its name; `found` more were done before.

    A process that somebody else kills is replaced, and goes on with its piece. One that fails does not stop the others.
    Raises `RunError` that names those that failed, and `StoppedError` after a signal, when all have saved their state.
    """
    waiting, running = deque(pieces), dict[Forked, Piece]()
    kills: Counter[str] = Counter()
    failures, results = dict[str, str](), dict[str, str]()
    deadline = float("inf")
    with Shown(title, total=len(pieces) + found, found=found) as shown:
        try:
            while running or (waiting and stop.received is None):
                while waiting and len(running) < workers and stop.received is None:
                    piece, progress = waiting.popleft(), Progress()
                    shown.running[piece.name] = progress
                    running[Forked(_bound(piece, progress))] = piece
                if stop.received is not None and deadline == float("inf"):
                    deadline = time.monotonic() + GRACE
                    for process in running:
                        process.stop()
                if time.monotonic() > deadline:
                    for process in running:
                        process.stop(signal.SIGKILL)
                for process, piece in list(running.items()):
                    ending = process.ending(TICK / len(running))
                    for line in process.said():
                        shown.say(f"{piece.name}: {line}")
                    if ending is None:
                        continue
                    del running[process], shown.running[piece.name]
                    process.close()
                    if ending.kind == forked.DONE:
                        shown.done += 1
                        results[piece.name] = ending.text
                        shown.say(shown.in_words())
                    elif stop.received is not None and ending.kind != forked.FAILED:
                        continue
                    elif ending.kind != forked.FAILED and kills[piece.name] < TRIES - 1:
                        kills[piece.name] += 1
                        shown.say(f"isoscope: {piece.name}: {ending.text}; another process goes on with it")
                        waiting.appendleft(piece)
                    else:
                        shown.failed += 1
                        failures[piece.name] = ending.text
                        shown.say(f"isoscope: {piece.name} failed: {ending.text.rstrip()}")
                shown.look()
        finally:
            for process in running:
                process.stop(signal.SIGKILL)
    if stop.received is not None:
        done = f"{shown.done} of {shown.total} done"
        raise StoppedError(stop.received, f"{title}: stopped with {done}; the same command goes on")
    if failures:
        why = "; ".join(f"{name}: {(text.strip() or '?').splitlines()[-1]}" for name, text in failures.items())
        raise RunError(f"{title}: {len(failures)} of {shown.total} failed: {why}")
    return results


def _bound(piece: Piece, progress: Progress) -> Callable[[], str]:
    return lambda: piece.do(progress)
