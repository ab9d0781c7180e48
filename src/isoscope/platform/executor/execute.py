"""Do pieces of work in parallel, each in its own process, on this machine or on the nodes of a cluster."""

import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import NamedTuple

from isoscope.base.errors import InputError, RunError
from isoscope.base.processes import StoppedError, StopSignal
from isoscope.base.workers import cores
from isoscope.platform.executor.child import CRASHED, DONE, FAILED, STOPPED, WRONG, Child, Ending
from isoscope.platform.executor.cluster import Nodes, Remote
from isoscope.platform.executor.live_table import PieceProgress, Progress, Screen

FINISH, STOP = signal.SIGUSR1, signal.SIGTERM
# Seconds between checks of all processes, and until a warning about processes that have not started.
TICK, PATIENCE = 0.05, 30.0
# Seconds that processes get to stop: a run saves its state first.
GRACE = 60.0
# A piece fails after this many of its processes were killed.
TRIES = 3
# Give up after this many workers in a row were killed before `BRIEF` seconds.
BRIEF, BRIEF_TRIES = 1.0, 20


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


class Requests:
    """Stop requests that a worker received by signal.

    `finish`: start nothing new (SIGUSR1, SIGTERM). `stop`: stop now (SIGTERM).
    """

    def __init__(self) -> None:
        self.finish = self.stop = False
        signal.signal(FINISH, self._note)
        signal.signal(STOP, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.finish = True
        self.stop = self.stop or number == STOP


def room(threads: int | None, *, device: str) -> int:
    """Return how many runs of `threads` threads each (None: all cores) fit in parallel; 1 on a GPU."""
    return max(1, cores() // threads) if threads and device == "cpu" else 1


def side_by_side(
    pieces: Sequence[Piece], *, title: str, workers: int, stop: StopSignal, found: int = 0, nodes: Nodes | None = None
) -> dict[str, str]:
    """Do all pieces, `workers` at a time; return their results by name. `found`: number of pieces already done.

    A killed process is replaced and resumes its piece. A failure does not stop the others.
    Raises `RunError` with the names of failed pieces; `StoppedError` after a signal, when all have saved their state.
    """
    with PieceProgress(title, total=len(pieces) + found, found=found) as shown:
        pool = _Pool(pieces, workers, stop, shown, nodes)
        pool.run()
    if stop.received is not None:
        done = f"{shown.done} of {shown.total} done"
        raise StoppedError(stop.received, f"{title}: stopped with {done}; run the same command to resume")
    if pool.failures:
        why = "; ".join(f"{name}: {(it.text.strip() or '?').splitlines()[-1]}" for name, it in pool.failures.items())
        raise RunError(f"{title}: {len(pool.failures)} of {shown.total} failed: {why}")
    return pool.results


def work(
    start: Callable[[Requests, Callable[[str], None]], None],
    count: int,
    *,
    asked: StopSignal,
    screen: Screen,
    nodes: Nodes | None = None,
) -> None:
    """Keep `count` workers running `start(requests, say)` until all find nothing left to do.

    A killed or stopped worker is replaced, unless many die young. Raises a worker's error after the others have
    stopped.
    """
    pool = _Pool([Piece("a worker", partial(_worker, start))] * count, count, asked, screen, nodes, alike=True)
    pool.run()
    for ending in pool.failures.values():
        raise (InputError if ending.kind == WRONG else RunError)(ending.text.rstrip())


def _worker(start: Callable[[Requests, Callable[[str], None]], None], progress: Progress) -> str:
    requests = Requests()
    start(requests, progress.note)
    if requests.stop:
        raise StoppedError(STOP, "")  # the command prints the message
    return ""


class _Pool:
    """Waiting pieces, running processes, and results and failures of the others.

    `alike`: the pieces are workers that share one queue of their own. Then one failure ends all, and when one worker
    finds nothing left, no other is started.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        workers: int,
        asked: StopSignal,
        screen: Screen,
        nodes: Nodes | None,
        *,
        alike: bool = False,
    ) -> None:
        self._workers, self._asked, self._screen, self._nodes, self._alike = workers, asked, screen, nodes, alike
        self._waiting, self._running = deque(pieces), dict[Process, Piece]()
        self._started, self._kills = dict[Process, float](), Counter[str]()
        self._signal, self._over, self._deadline, self._began = 0, False, 0.0, time.monotonic()
        self._tries, self._brief = (BRIEF_TRIES, BRIEF) if alike and nodes is None else (TRIES, float("inf"))
        self._said = Counter[str]()
        self.results, self.failures = dict[str, str](), dict[str, Ending]()

    def run(self) -> None:
        """Return when all pieces have ended, or when all processes have stopped."""
        try:
            while self._running or (self._waiting and not self._wanted_signal()):
                while self._waiting and len(self._running) < self._workers and not self._wanted_signal():
                    self._start(self._waiting.popleft())
                self._tell()
                for process, piece in list(self._running.items()):
                    self._listen(process, piece)
                self._warn()
                self._screen.look()
        finally:
            for process in self._running:
                process.stop(signal.SIGKILL)
            for line, times in self._said.items():
                if times > 1:
                    self._screen.say(f"{times} in all said: {line}")

    def _start(self, piece: Piece) -> None:
        process: Process = Local(piece.do) if self._nodes is None else self._nodes.start(piece.do)
        self._running[process], self._started[process] = piece, time.monotonic()

    def _wanted_signal(self) -> int:
        """Return the signal that processes should have received by now; 0 for none."""
        if self._asked.stop or (self._alike and self.failures):
            self._deadline = self._deadline or time.monotonic() + GRACE
            return signal.SIGKILL if time.monotonic() > self._deadline else STOP
        return FINISH if self._asked.finish else 0

    def _tell(self) -> None:
        """Pass on stop requests; drop processes that wait for room on a cluster when nothing is left to do."""
        number = self._wanted_signal()
        for process in list(self._running):
            if not process.began and (number or self._over):
                self._forget(process)
                process.stop(signal.SIGKILL)
            elif number != self._signal:
                process.stop(number)
        self._signal = number

    def _tell_once(self, piece: Piece, line: str) -> None:
        """Show a line with the piece's name; of pieces that say the same, the first."""
        self._said[line] += not self._alike
        if self._said[line] < 2:
            self._screen.say(line if self._alike else f"{piece.name}: {line}")

    def _forget(self, process: Process) -> float:
        """Remove a process; return its age in seconds."""
        self._screen.running.pop(self._running.pop(process).name, None)
        return time.monotonic() - self._started.pop(process)

    def _listen(self, process: Process, piece: Piece) -> None:
        ending = process.ending(TICK / len(self._running))
        for line in process.said():
            self._tell_once(piece, line)
        if ending is None:
            if process.began:
                self._screen.running[piece.name] = process.progress
            return
        age = self._forget(process)
        process.close()
        if ending.kind == DONE:
            self._over = self._alike
            self.results[piece.name] = ending.text
            self._screen.ended(done=True)
        elif ending.kind in (WRONG, FAILED, CRASHED):
            self._fail(piece, ending)
        elif not (self._wanted_signal() or self._over):
            early = age < self._brief or not process.began
            self._kills[piece.name] = self._kills[piece.name] + 1 if early else 0
            if self._kills[piece.name] >= self._tries:
                self._fail(piece, ending)
                return
            how = "stopped by another process" if ending.kind == STOPPED else ending.text
            self._say(f"{piece.name} was {how}: replaced" if self._alike else f"{piece.name}: {how}; replaced")
            self._waiting.appendleft(piece)

    def _fail(self, piece: Piece, ending: Ending) -> None:
        self.failures.setdefault(piece.name, ending)
        self._screen.ended(done=False)
        if not self._alike:
            self._say(f"{piece.name} failed: {ending.text.rstrip()}")

    def _warn(self) -> None:
        if self._nodes is None or time.monotonic() - self._began < PATIENCE:
            return
        self._began = float("inf")
        waiting = sum(not process.began for process in self._running)
        if waiting and (self._alike or waiting == len(self._running)):
            self._say(f"{waiting} of {len(self._running)} workers have not started: {self._nodes.shortage()}")

    def _say(self, line: str) -> None:
        self._screen.say(line if self._alike else f"isoscope: {line}")  # the screen of a search adds this itself
