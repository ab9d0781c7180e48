"""The live mirror: records into MLflow as they grow, in a process of its own that no run waits for."""

import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from isoscope.errors import InputError
from isoscope.mirror.mlflow import RefusedError, Server, UnreachableError, connect
from isoscope.mirror.replay import Mirror
from isoscope.runs.follower import LAST_TRY, PATIENCE
from isoscope.runs.lines import RUNNING
from isoscope.runs.record import Tail

LONGEST_PAUSE = 60.0


class _Followed:
    """One record and its run: what has been read, and how many lines of it have been sent."""

    def __init__(self, path: Path) -> None:
        self.tail = Tail(path)
        self.mirror: Mirror | None = None
        self.sent = 0
        self.refusal: str | None = None

    @property
    def unsent(self) -> int:
        return self.tail.position.lines - self.sent

    def send(self, server: Server, deadline: float) -> None:
        """Send what is new; the state of a run that has ended is let go."""
        self.mirror = self.mirror or Mirror(server)
        lines = self.tail.position.lines
        self.mirror.send(self.tail.record, deadline)
        self.sent, self.refusal = lines, None
        if self.tail.record.status != RUNNING:
            self.mirror = None


def _below(item: _Followed) -> bool:
    """Whether a run is shown below another, which MLflow must have first."""
    return item.tail.record.run is not None and item.tail.record.run.parent is not None


class Follower:
    """All records of a folder, or those of `digests`, and the MLflow they go to.

    Among all of a folder, a run that had ended before is left alone until its record grows: bringing old records to
    MLflow is what `isoscope mirror` is for. One of `digests` may have ended while this process was starting.
    """

    def __init__(self, records: Path, root: Path, uri: str | None, digests: Collection[str] | None = None) -> None:
        self.records, self.root, self.uri, self.digests = records, root, uri, digests
        self.followed: dict[Path, _Followed] = {}
        self._server: Server | None = None
        self._begun = False

    def look(self) -> None:
        """Read what has been added to the records."""
        for path in sorted(self.records.glob("*.jsonl")):
            if self.digests is not None and path.stem not in self.digests:
                continue
            known = self.followed.setdefault(path, _Followed(path))
            try:
                known.tail.poll()
            except OSError:
                continue
            if not self._begun and self.digests is None and known.tail.record.status != RUNNING:
                known.sent = known.tail.position.lines
        self._begun = True

    def send(self, deadline: float) -> None:
        """Send all that is new; a refused record does not hold up the others. Raises `UnreachableError`."""
        for item in sorted(self.followed.values(), key=_below):
            if not item.unsent:
                continue
            try:
                self._server = self._server or connect(self.uri, self.root)
                item.send(self._server, deadline)
            except (RefusedError, InputError) as error:
                if item.refusal != str(error):
                    item.refusal = str(error)
                    _say(f"MLflow refuses {item.tail.path.name}: {error}")

    def unsent(self) -> dict[str, int]:
        """Digest → lines of its record that MLflow has not taken."""
        return {path.stem: item.unsent for path, item in self.followed.items() if item.unsent}


class End(NamedTuple):
    """How following ended: digest → lines left unsent, and whether MLflow was away."""

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

    Every `interval` seconds what is new is sent in batches. While MLflow is away the pause doubles up to a minute;
    one line on stderr says when it goes and one when it is back. At the end, everything is tried once more: no request
    is begun later than `patience` seconds on (a busy machine may need many to make MLflow's database), or `last_try`
    where MLflow was away. Nothing is raised.
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
        except Exception as error:  # a mirror must never be the reason that anything ends
            if not away:
                away_or_worse = isinstance(error, UnreachableError)
                what = "MLflow does not answer" if away_or_worse else f"failed by {type(error).__name__}"
                _say(f"{what}; the record goes on without it ({error})")
            away, pause = str(error), min(2 * pause, LONGEST_PAUSE)
        next_try = time.monotonic() + pause
    return End(follower.unsent(), bool(away))


def _say(text: str) -> None:
    print(f"isoscope mirror: {text}", file=sys.stderr, flush=True)
