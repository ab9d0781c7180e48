"""Do pieces of work in parallel, each in its own process, on this machine or on the nodes of a cluster."""

import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import NamedTuple

from isoscope.base.errors import RunError
from isoscope.base.processes import StoppedError, StopSignal
from isoscope.base.workers import cores
from isoscope.platform.executor.child import CRASHED, DONE, FAILED, WRONG, Child, Ending
from isoscope.platform.executor.cluster import Nodes, Remote
from isoscope.platform.executor.live_table import PieceProgress, Progress, Screen

# Seconds between checks of all processes, and until a warning about processes that have not started.
TICK, PATIENCE = 0.05, 30.0
# Seconds that a process gets to stop: a run saves its state first.
GRACE = 60.0
# A piece fails after this many of its processes were killed.
TRIES = 3


class Piece(NamedTuple):
    """Work that may be killed at any time and resumes when repeated. For a cluster, `do` must be picklable."""

    name: str
    do: Callable[[Progress], str]


class Local(Child):
    """A process on this machine."""

    began = True

    def __init__(self, do: Callable[[Progress], str]) -> None:
        self.progress = Progress()
        super().__init__(partial(do, self.progress))


Process = Local | Remote  # does a piece; `began`: whether it has answered


def room(threads: int | None, *, device: str) -> int:
    """Return how many runs of `threads` threads each (None: all cores) fit in parallel; 1 on a GPU."""
    return max(1, cores() // threads) if threads and device == "cpu" else 1


class Pool(AbstractContextManager["Pool"]):
    """Processes at work on pieces: started, listened to, and stopped so that their pieces can resume.

    Its user decides what to start, and whether to start it again. At its end it stops what still runs.
    """

    def __init__(self, screen: Screen, nodes: Nodes | None, *, heard: Callable[[Piece, str], None]) -> None:
        """`nodes`: of a cluster; None: this machine. `heard`: called with each line that a process prints."""
        self._screen, self._nodes, self._heard = screen, nodes, heard
        self._pieces, self._deadlines = dict[Process, Piece](), dict[Process, float]()
        self._warning = float("inf") if nodes is None else time.monotonic() + PATIENCE

    def __len__(self) -> int:
        return len(self._pieces)

    def start(self, piece: Piece) -> None:
        """Start a process for a piece."""
        process: Process = Local(piece.do) if self._nodes is None else self._nodes.start(piece.do)
        self._pieces[process] = piece

    def stop(self, name: str | None = None) -> None:
        """Stop the piece of this name, or all: each saves its state. After `GRACE` seconds its process is killed."""
        for process, piece in self._pieces.items():
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
                del self._pieces[process]
                self._deadlines.pop(process, None)
                self._screen.running.pop(piece.name, None)
                yield piece, ending
            elif process.began:
                self._screen.running[piece.name] = process.progress
        self._warn()

    def __exit__(self, *exception: object) -> None:
        self.stop()
        while self._pieces:
            for _ in self.ended():
                pass

    def _warn(self) -> None:
        """Say once that no process has found room on the cluster for long."""
        if self._nodes is not None and time.monotonic() > self._warning:
            self._warning = float("inf")
            if not any(process.began for process in self._pieces):
                self._screen.say(f"isoscope: {len(self)} processes have not started: {self._nodes.shortage()}")


def side_by_side(
    pieces: Sequence[Piece], *, title: str, workers: int, stop: StopSignal, found: int = 0, nodes: Nodes | None = None
) -> dict[str, str]:
    """Do all pieces, `workers` at a time; return their results by name. `found`: number of pieces already done.

    A killed process is replaced and resumes its piece. A failure does not stop the others.
    Raises `RunError` with the names of failed pieces; `StoppedError` after a signal, when all have saved their state.
    """
    waiting, kills, said = deque(pieces), Counter[str](), Counter[str]()
    results, failures = dict[str, str](), dict[str, Ending]()

    def heard(piece: Piece, line: str) -> None:
        said[line] += 1
        if said[line] == 1:  # of pieces that say the same, the first
            shown.say(f"{piece.name}: {line}")

    with PieceProgress(title, total=len(pieces) + found, found=found) as shown, Pool(shown, nodes, heard=heard) as pool:
        while pool or (waiting and not stop.stop):
            if stop.stop:
                pool.stop()
            while waiting and len(pool) < workers and not stop.stop:
                pool.start(waiting.popleft())
            for piece, ending in pool.ended():
                kills[piece.name] += 1
                if ending.kind == DONE:
                    results[piece.name] = ending.text
                    shown.ended(done=True)
                elif ending.kind in (WRONG, FAILED, CRASHED) or (kills[piece.name] >= TRIES and not stop.stop):
                    failures[piece.name] = ending
                    shown.ended(done=False)
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
