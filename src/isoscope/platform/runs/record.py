"""Record of a run: an append-only file of JSON lines that survives kills; MLflow mirrors it."""

import json
import math
import os
import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from isoscope.base.atomic_files import announce, sync, write_text
from isoscope.base.errors import InputError
from isoscope.platform.runs.lines import DIFF, FINISHED, Run, RunRecord, is_inside, plain, summed
from isoscope.platform.runs.provenance import Git, slurm_job
from isoscope.platform.runs.secrets import scrub, scrub_run


class Record(AbstractContextManager["Record"]):
    """A run's record, opened for appending by the run's owner.

    Each line is passed to the operating system at once, in one write: a killed process loses no logged line. `run`,
    `attempt`, `checkpoint` and `end` are also flushed to disk. If the disk is full, metrics wait in memory and are
    written before the next line; the flushed kinds raise `OSError`.

    A (metric, step) pair is written only once, so a resumed run may repeat steps. Every line ends with its checksum.

    - `before`: contents of the record when it was opened.
    - `written`: whether lines were added since then.
    - `begun`: whether the record has the run's identity.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.before = read(path) if path.exists() else RunRecord(path=path)
        self._steps: defaultdict[str, set[int]] = defaultdict(set)
        for point in self.before.metrics:
            self._steps[point.name].add(point.step)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._unwritten = bytearray()
        self._refused = False
        self.written = False
        self.begun = self.before.run is not None
        self._began = max(time.time_ns() // 1_000_000, self.before.latest) - _ticks()
        self._lock = threading.Lock()
        size = os.fstat(self._fd).st_size
        if size == 0:
            sync(path.parent)
        elif os.pread(self._fd, 1, size - 1) != b"\n":
            self._unwritten += b"\n"

    def run(self, *, digest: str, stage: str, **fields: Any) -> None:
        """Write the run's identity, once; `fields`: further fields of `lines.Run`.

        Raises `InputError` if the record belongs to another run.
        """
        known = self.before.run
        if known is not None and known.digest != digest:
            raise InputError(f"{self.path}: record of run {known.digest[:12]}, not of {digest[:12]}; move it away")
        if not self.begun:
            self._append("run", scrub_run({"digest": digest, "stage": stage, **fields}), force=True)
            self.begun = True

    def attempt(
        self,
        *,
        git: Git,
        environment: Mapping[str, Any],
        parent_run: str | None = None,
        began: Mapping[str, Any] | None = None,
        estimate: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the start of an attempt; store the diff of the sources beside the record."""
        fields = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "git": {name: getattr(git, name) for name in ("commit", "dirty", "diff_sha256", "scrubbed")},
            "environment": environment,
            "parent_run": parent_run,
            "job": slurm_job(),
            "began": began,
            "estimate": estimate,
        }
        self._append("attempt", fields, force=True)
        if git.diff_sha256 is not None:
            diff = self.path.parent / "diffs" / f"{git.diff_sha256}.patch"
            if not diff.exists():
                write_text(diff, git.diff, "diff", shared=True)
            self.artifact(diff, name=DIFF)

    def metric(self, name: str, value: float, *, step: int, epoch: int | None = None) -> None:
        """Log a value, unless this metric already has a value at this step."""
        steps = self._steps[name]
        if step not in steps:
            self._append("metric", {"name": name, "value": float(value), "step": int(step), "epoch": epoch})
            steps.add(step)

    def dataset(self, name: str, *, context: str, digest: str, path: str, rows: int | None = None) -> None:
        """Log a split that was read; `context`: training, validation or test."""
        self._append("dataset", {"name": name, "context": context, "digest": digest, "path": path, "rows": rows})

    def artifact(self, path: Path, *, name: str | None = None) -> None:
        """Log a small file as an artifact `name` (default: its file name)."""
        name = name or path.name
        if not is_inside(name):
            raise InputError(f"artifact name {name!r}: expected a relative path without '..'")
        self._append("artifact", {"path": str(path.resolve()), "name": name})

    def checkpoint(
        self, name: str, *, epoch: int | None, step: int, path: str, md5: str, metrics: Mapping[str, float]
    ) -> None:
        """Log stored weights: `path` relative to the project, `md5` from `provenance.dvc_md5`."""
        fields = {"name": name, "epoch": epoch, "step": step, "path": path, "md5": md5, "metrics": metrics}
        self._append("checkpoint", fields, force=True)

    def end(
        self,
        status: str,
        *,
        reason: str | None = None,
        output: str | None = None,
        output_md5: str | None = None,
        t: int | None = None,
    ) -> None:
        """Write the end of this attempt: FINISHED, FAILED or KILLED; `t`: its time [default: now]."""
        reason = scrub(reason) if reason else None
        fields = {"t": t, "status": status, "reason": reason, "output": output, "output_md5": output_md5}
        self._append("end", {name: value for name, value in fields.items() if value is not None}, force=True)

    def finish(self) -> None:
        """Write that a run is finished whose output is whole, if the record does not say so."""
        if self.begun and self.before.status != FINISHED:
            self.end(FINISHED, t=self.before.latest)

    def accepted(self, *, code: str, digest: str) -> None:
        """Write that a code version reproduces the run's golden trace; `digest`: the run's digest under it."""
        if not any(known.digest == digest for known in self.before.accepted):
            self._append("accepted", {"code": code, "digest": digest}, force=True)

    def mend(self, points: Iterable[Mapping[str, Any]], *, source: str | None) -> None:
        """Write the missing `points` (name, value, step, epoch) of a run to its record.

        A further line counts the points taken from `source` (None: no source) and the damaged lines. Data that only the
        record holds (speeds, times, attempts) cannot be restored.
        """
        lacking = [point for point in points if point["step"] not in self._steps[point["name"]]]
        damaged = self.before.damaged - self.before.mended
        if not (lacking or damaged):
            return
        # The time of the work, not of the repair.
        t = max((point.t for point in self.before.metrics), default=self._now())
        for point in lacking:
            fields = {name: point.get(name) for name in ("name", "value", "step", "epoch")}
            self._append("metric", {"t": t, **fields})
            self._steps[point["name"]].add(point["step"])
        self._append("mended", {"damaged": self.before.damaged, "refilled": len(lacking)}, force=True)
        refilled = f"points restored from {source}: {len(lacking)}" if source else "there is no copy of their contents"
        print(f"warning: {self.path}: damaged lines: {damaged}; {refilled}", file=sys.stderr)

    def close(self) -> None:
        """Write pending lines and close the file."""
        with self._lock:
            if self._fd >= 0:
                try:
                    self._write(force=True)
                finally:
                    os.close(self._fd)
                    self._fd = -1

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _append(self, kind: str, fields: Mapping[str, Any], *, force: bool = False) -> None:
        text = json.dumps(plain({"kind": kind, "t": self._now(), **fields}), allow_nan=False)
        with self._lock:
            self.written = True
            self._unwritten += summed(text) + b"\n"
            try:
                announce("record", self.path)
                self._write(force)
            except OSError as error:
                if force:
                    raise
                if not self._refused:
                    print(
                        f"{self.path}: {error.strerror}: metrics are kept in memory until there is free space",
                        file=sys.stderr,
                    )
                self._refused = True

    def _now(self) -> int:
        """Return Unix ms that never decrease: the time of opening plus a monotonic clock."""
        return self._began + _ticks()

    def _write(self, force: bool) -> None:
        """Write pending bytes in order; a partial write continues with the next write, so no line is truncated."""
        while self._unwritten:
            del self._unwritten[: os.write(self._fd, self._unwritten)]
        if force:
            os.fsync(self._fd)


class Tail:
    """Follows a growing record; each `poll` reads only the new lines. `offset` and `lines`: read so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = RunRecord(path=path)
        self.offset = self.lines = 0

    def poll(self) -> bool:
        """Read new lines; return whether there were any. An incomplete last line waits for the next poll."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            new = file.read()
        *whole, last = new.split(b"\n")
        if last and _parses(last):
            whole.append(last)
            last = b""
        lines = [line for line in whole if line.strip()]
        for line in lines:
            self.record.add(line)
        self.offset += len(new) - len(last)
        self.lines += len(lines)
        return bool(lines)


def read(path: Path) -> RunRecord:
    """Return the record in a file; a truncated last line is skipped and counted as damaged."""
    tail = Tail(path)
    tail.poll()
    if path.stat().st_size > tail.offset:
        tail.record.damaged += 1
    return tail.record


def working_seconds(record: RunRecord) -> float | None:
    """Return the sum over attempts of the seconds from start to last line. Pauses before a resume do not count."""
    if record.restored or not record.attempts:
        return None
    return sum(end - start for start, end in worked(record)) / 1000


def worked(record: RunRecord) -> list[tuple[float, float]]:
    """Return the start and the last line of each attempt, in milliseconds."""
    times = [line.t for part in (record.metrics, record.checkpoints, record.datasets) for line in part]
    times += [record.end.t] if record.end else []
    starts = [attempt.t for attempt in record.attempts]
    return [
        (start, max((t for t in times if start <= t < following), default=start))
        for start, following in zip(starts, [*starts[1:], math.inf], strict=True)
    ]


def identities(records: Path) -> Iterator[Run]:
    """Yield the identity in the first line of every record of a folder."""
    for path in records.glob("*.jsonl"):
        record = RunRecord(path=path)
        with suppress(FileNotFoundError), path.open("rb") as file:  # isoscope rm may have removed it
            record.add(file.readline().rstrip(b"\n"))
        if record.run is not None:
            yield record.run


def _ticks() -> int:
    """Return milliseconds of a monotonic clock; if the system has such a clock, it also counts suspended time."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


def _parses(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
