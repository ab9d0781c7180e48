"""The live mirror: send growing records to MLflow, in a separate process that no run waits for."""

import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from isoscope.base.errors import InputError
from isoscope.platform.mirror.errors import RefusedError, UnreachableError
from isoscope.platform.mirror.mlflow import Server, connect
from isoscope.platform.mirror.replay import Mirror
from isoscope.platform.runs.follower import LAST_TRY, PATIENCE
from isoscope.platform.runs.lines import RUNNING
from isoscope.platform.runs.record import Tail

LONGEST_PAUSE = 60.0


@dataclass
class _MirroredRecord:
    """A record, its mirror while the run has not ended, and how many lines were `sent`."""

    tail: Tail
    mirror: Mirror | None = None
    sent: int = 0
    refusal: str | None = None

    @property
    def unsent(self) -> int:
        return self.tail.lines - self.sent


class Follower:
    """Sends all records of a folder, or those of `digests`, to MLflow.

    Without `digests`, a run that has already ended is skipped until its record grows; `isoscope mirror` sends old
    records. With `digests`, ended runs are sent too: a run may end while this process is starting.
    """

    def __init__(self, records: Path, root: Path, uri: str | None, digests: Collection[str] | None = None) -> None:
        self.records, self.root, self.uri, self.digests = records, root, uri, digests
        self.followed: dict[Path, _MirroredRecord] = {}
        self._server: Server | None = None
        self._begun = False

    def look(self) -> None:
        """Read new lines of the records."""
        for path in sorted(self.records.glob("*.jsonl")):
            if self.digests is not None and path.stem not in self.digests:
                continue
            known = self.followed.setdefault(path, _MirroredRecord(Tail(path)))
            try:
                known.tail.poll()
            except OSError:
                continue
            if not self._begun and self.digests is None and known.tail.record.status != RUNNING:
                known.sent = known.tail.lines
        self._begun = True

    def send(self, deadline: float) -> None:
        """Send all new lines; a refused record does not block the others. Raises `UnreachableError`."""
        # A parent run must be in MLflow before the runs below it.
        items = sorted(self.followed.values(), key=lambda item: bool((run := item.tail.record.run) and run.parent))
        for item in items:
            if not item.unsent:
                continue
            self._server = self._server or connect(self.uri, self.root)
            item.mirror, lines = item.mirror or Mirror(self._server), item.tail.lines
            try:
                item.mirror.send(item.tail.record, deadline)
            except RefusedError as error:
                if item.refusal != str(error):
                    item.refusal = str(error)
                    _say(f"MLflow refuses {item.tail.path.name}: {error}")
            else:
                item.sent, item.refusal = lines, None
                if item.tail.record.status != RUNNING:
                    item.mirror = None


class End(NamedTuple):
    """Result of following: digest → number of unsent lines, and whether MLflow was unreachable at the end."""

    unsent: dict[str, int]
    away: bool


def follow(
    records: Path,
    root: Path,
    uri: str | None = None,
    *,
    until: Callable[[], bool],
    digests: Collection[str] | None = None,
    interval: float = 2.0,
    last_try: float = LAST_TRY,
    patience: float = PATIENCE - LAST_TRY,
) -> End:
    """Mirror the records in a folder as they grow, until `until()`.

    New lines are sent in batches every `interval` seconds. While MLflow is unreachable, the pause doubles up to a
    minute; a line on stderr reports the loss and the return of MLflow. At the end, everything unsent is tried once
    more: no request starts later than `patience` seconds after the end (a busy machine may need that long to create
    MLflow's database), or `last_try` if MLflow was unreachable. Raises nothing.
    """
    follower = Follower(records, root, uri, digests)
    away, pause, next_try = "", interval, 0.0
    last = False
    while not last:
        last = until()
        now = time.monotonic()
        if not last and now < next_try:
            time.sleep(min(0.1, next_try - now))
            continue
        try:
            follower.look()
            follower.send(now + (last_try if away else patience) if last else float("inf"))
            if away:
                _say("MLflow is back")
            away, pause = "", interval
        except Exception as error:  # the mirror must never end a run
            if not away:
                what = {UnreachableError: "MLflow does not answer", InputError: "MLflow cannot be used"}
                said = what.get(type(error), f"failed by {type(error).__name__}")
                _say(f"{said}; the run continues and its record keeps everything ({error})")
            away, pause = str(error), min(2 * pause, LONGEST_PAUSE)
        next_try = time.monotonic() + pause
    unsent = {path.stem: item.unsent for path, item in follower.followed.items() if item.unsent}
    return End(unsent, bool(away))


def _say(text: str) -> None:
    print(f"isoscope mirror: {text}", file=sys.stderr, flush=True)
