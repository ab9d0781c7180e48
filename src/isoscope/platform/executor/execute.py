"""Do pieces of work in parallel, each in its own process, on this machine or on the nodes of a cluster."""

import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from isoscope.base.errors import RunError
from isoscope.base.processes import StoppedError, StopSignal
from isoscope.platform.executor.child import CANCELLED, CRASHED, CROWDED, DONE, FAILED, WRONG, Ending
from isoscope.platform.executor.live_table import PieceProgress, Progress, Screen
from isoscope.platform.executor.piece import Piece as Piece
from isoscope.platform.executor.this_machine import ThisMachine

TICK = 0.05  # seconds between checks of all processes
# Seconds that a process gets to stop: a run saves its state first.
GRACE = 60.0
# A piece fails after this many of its processes were killed; by one of these ends, at once.
TRIES = 3
FAILURES = (WRONG, FAILED, CRASHED, CANCELLED)


class Process(Protocol):
    """A process that does a piece."""

    progress: Progress
    began: bool
    """Whether it has answered."""

    def ending(self, seconds: float) -> Ending | None:
        """Return how it ended, after a wait of at most `seconds`; None while it runs."""

    def said(self) -> list[str]:
        """Return the lines it has printed since the last call; after its end, all remaining lines."""

    def stop(self, number: int) -> None:
        """Send it a signal: after SIGTERM it saves its state and ends."""

    def close(self) -> None:
        """Release what it held, after its end."""
        return


class Place(Protocol):
    """Where processes work: this machine, or a cluster."""

    patience: float
    """Seconds until a warning about processes that have not started."""
    usual: float
    """Number of processes at a time unless it is given."""

    @property
    def room(self) -> float:
        """Number of processes that it takes at a time now."""

    def start(self, piece: Piece) -> Any:
        """Start a process for a piece."""

    def look(self, process: Any) -> str | None:
        """Note what a running process needs; return a line to show. Batch systems give what a process asked for."""
        return None

    def freed(self, process: Any, *, crowded: bool) -> bool:
        """Free what a process had; return whether it can work with fewer others, if its card was too `crowded`."""
        return False

    def shortage(self) -> str:
        """Return why processes may not have started."""


class Pool(AbstractContextManager["Pool"]):
    """Processes at work on pieces: started, listened to, and stopped so that their pieces can resume.

    Its user decides what to start, and whether to start it again. At its end it stops what still runs.
    """

    def __init__(self, screen: Screen, place: Place | None, *, heard: Callable[[Piece, str], None]) -> None:
        """`place`: None is this machine, without a limit. `heard`: called with each line that a process prints."""
        self._screen, self._heard = screen, heard
        self._place: Place = place or ThisMachine()
        self._pieces, self._deadlines = dict[Process, Piece](), dict[Process, float]()
        self._warning = time.monotonic() + self._place.patience

    def __len__(self) -> int:
        return len(self._pieces)

    def start(self, piece: Piece) -> None:
        """Start a process for a piece."""
        self._pieces[self._place.start(piece)] = piece

    def takes(self, asked: int | None) -> bool:
        """Return whether one more process fits, if at most so many are `asked` for (None: as many as usual)."""
        return len(self) < min(self._place.usual if asked is None else asked, self._place.room)

    def at_work(self, name: str) -> bool:
        """Return whether the piece of this name has a process that has begun: a job may wait for hours."""
        return any(process.began for process, piece in self._pieces.items() if piece.name == name)

    def stop(self, name: str | None = None) -> None:
        """Stop the piece of this name, or all: each saves its state. After `GRACE` seconds its process is killed.

        First those that have not begun: else they would take the room of those that end.
        """
        for process, piece in sorted(self._pieces.items(), key=lambda one: one[0].began):
            if name in (None, piece.name) and process not in self._deadlines:
                self._deadlines[process] = time.monotonic() + GRACE
                process.stop(signal.SIGTERM if process.began else signal.SIGKILL)

    def ended(self) -> Iterator[tuple[Piece, Ending]]:
        """Listen to all processes for a moment; yield the pieces whose processes have ended, and how."""
        for process, piece in list(self._pieces.items()):
            if time.monotonic() > self._deadlines.get(process, float("inf")):
                process.stop(signal.SIGKILL)
            ending = process.ending(TICK / len(self._pieces))
            for line in process.said():
                self._heard(piece, line)
            if ending is not None:
                process.close()
                if not self._place.freed(process, crowded=ending.kind == CROWDED) and ending.kind == CROWDED:
                    ending = ending._replace(kind=FAILED)
                del self._pieces[process]
                self._deadlines.pop(process, None)
                self._screen.running.pop(piece.name, None)
                yield piece, ending
            elif process.began:
                self._screen.running[piece.name] = process.progress
                if news := self._place.look(process):
                    self._screen.say(f"isoscope: {news}")
        self._warn()

    def __exit__(self, *exception: object) -> None:
        self.stop()
        while self._pieces:
            for _ in self.ended():
                pass

    def _warn(self) -> None:
        """Say once that no process has found room on the cluster for long."""
        if time.monotonic() > self._warning:
            self._warning = float("inf")
            if not any(process.began for process in self._pieces):
                self._screen.say(f"isoscope: {len(self)} processes have not started: {self._place.shortage()}")


def side_by_side(
    pieces: Sequence[Piece],
    *,
    title: str,
    workers: int | None,
    stop: StopSignal,
    found: int = 0,
    place: Place | None = None,
) -> dict[str, str]:
    """Do all pieces, at most `workers` at a time (None: as many as fit); return their results by name.

    `found`: number of pieces already done. A killed process is replaced and resumes its piece, and a process that found
    no memory on a card that it shares. A failure does not stop the others.
    Raises `RunError` with the names of failed pieces; `StoppedError` after a signal, when all have saved their state.
    """
    waiting, kills, said = deque(pieces), Counter[str](), Counter[str]()
    results, failures = dict[str, str](), dict[str, Ending]()

    def heard(piece: Piece, line: str) -> None:
        said[line] += 1
        if said[line] == 1:  # of pieces that say the same, the first
            shown.say(f"{piece.name}: {line}")

    with PieceProgress(title, total=len(pieces) + found, found=found) as shown, Pool(shown, place, heard=heard) as pool:
        while pool or (waiting and not stop.stop):
            if stop.stop:
                pool.stop()
            while waiting and pool.takes(workers) and not stop.stop:
                pool.start(waiting.popleft())
            for piece, ending in pool.ended():
                kills[piece.name] += ending.kind != CROWDED
                if ending.kind == DONE:
                    results[piece.name] = ending.text
                    shown.ended(piece.name, done=True)
                elif ending.kind in FAILURES or (kills[piece.name] >= TRIES and not stop.stop):
                    failures[piece.name] = ending
                    shown.ended(piece.name, done=False)
                    shown.say(f"isoscope: {piece.name} failed: {ending.text.rstrip()}")
                elif not stop.stop:
                    shown.say(f"isoscope: {piece.name}: {ending.line}; replaced")
                    waiting.appendleft(piece)
            shown.look()
        for line in [line for line, times in said.items() if times > 1]:
            shown.say(f"{said[line]} in all said: {line}")
    if stop.received is not None:
        done = f"{shown.done} of {shown.total} done"
        raise StoppedError(stop.received, f"{title}: stopped with {done}; run the same command to resume")
    if failures:
        why = "; ".join(f"{name}: {ending.line}" for name, ending in failures.items())
        raise RunError(f"{title}: {len(failures)} of {shown.total} failed: {why}")
    return results
