"""Track a run's progress: counters that a resumed run restores, points, golden trace, early ends."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from torch import Tensor

from isoscope.base.atomic_files import announce, write_text
from isoscope.base.errors import RunError
from isoscope.base.metric import Direction

TRACE_FILE = "trace.json"
TRACED = 8
"""Updates that a golden trace holds: a change of the code that changes no number keeps it bit by bit."""

Trace = dict[str, Any]
Weights = Callable[[], Iterable[tuple[str, Tensor]]]


class DivergedError(RunError):
    """The loss is not finite."""


class InterruptedRunError(Exception):
    """A stop was requested; the state is saved."""


@dataclass
class Progress:
    """Counters of one run. Epochs count from 1; `epoch` is the current epoch, or the last complete epoch."""

    step: int = 0
    """Updates done."""
    epochs_done: int = 0
    best_epoch: int = 0
    best_value: float | None = None
    stale: int = 0
    """Epochs since the best epoch."""
    points: int = 0
    """Lines of metrics.jsonl that belong to this state."""
    points_sha256: str = ""
    """sha256 of these lines."""
    held: dict[str, str] = field(default_factory=dict)
    """Checkpoints and snapshots that belong to this state, with the sha256 of their manifests."""
    tally: list[float] = field(default_factory=list)
    """The objective's tally of the current epoch (`Tally.vector`); empty before its first update."""
    gradient_norm: float = 0.0
    """Summed gradient norms of the current epoch."""
    updates: int = 0
    """Updates of the current epoch."""
    config: dict[str, Any] = field(default_factory=dict)
    """What training has put into the model's configuration, such as a threshold."""
    trace: Trace = field(default_factory=dict)
    """The golden trace so far (see `begin_trace`)."""

    def add(self, tally: list[float], norm: float) -> None:
        """Count the numbers of one update: the tally of the epoch so far, and the update's gradient norm."""
        self.tally = tally
        self.gradient_norm += norm
        self.updates += 1

    def close_epoch(self, value: float, direction: Direction | None) -> bool:
        """Record an epoch's validation metric and clear the tally; return whether it is the best epoch so far."""
        self.epochs_done += 1
        self.tally, self.gradient_norm, self.updates = [], 0.0, 0
        sign = 1 if direction == "maximise" else -1
        first = self.best_value is None or (math.isnan(self.best_value) and not math.isnan(value))
        better = first or sign * value > sign * float(self.best_value or 0)
        self.stale += 1
        if better:
            self.best_epoch, self.best_value, self.stale = self.epochs_done, value, 0
        return better


class Points:
    """Write the file metrics.jsonl; it holds no times, so equal runs give equal bytes."""

    def __init__(self, path: Path, keep: int) -> None:
        """Continue after the first `keep` lines; drop what a stopped run wrote after its last state."""
        self.path, self.count = path, keep
        self._unwritten: list[str] = []
        text = _head(path, keep)
        self._sha256 = hashlib.sha256(text)
        write_text(path, text.decode(), "points")

    @property
    def sha256(self) -> str:
        """Return the sha256 of all points added so far."""
        return self._sha256.hexdigest()

    def write(self, name: str, value: float, *, step: int, epoch: int | None) -> None:
        """Add one point."""
        line = json.dumps({"name": name, "value": value, "step": step, "epoch": epoch}) + "\n"
        self._unwritten.append(line)
        self._sha256.update(line.encode())
        self.count += 1

    def flush(self) -> None:
        """Append the points to the file. Call it before a state is saved, since the state counts these lines."""
        announce("points", self.path)
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(self._unwritten)
            file.flush()
            os.fsync(file.fileno())
        self._unwritten.clear()

    def read(self) -> list[dict[str, Any]]:
        """Read every flushed point from the file. Raises `RunError` if the file is not as it was written."""
        if wrong := points_fault(self.path, self.count, self.sha256):
            raise RunError(f"{wrong} ({self.path}); run the same command to resume from an older state")
        return [json.loads(line) for line in self.path.read_bytes().splitlines()]


def points_fault(path: Path, count: int, sha256: str) -> str | None:
    """Return what is wrong with the first `count` points of a file; None if they are as they were written."""
    if not path.is_file():
        return f"{path.name} is missing"
    text = _head(path, count)
    if (found := text.count(b"\n")) < count:
        return f"{path.name} holds {found} of {count} points"
    return None if hashlib.sha256(text).hexdigest() == sha256 else f"{path.name} has changed since it was written"


def _head(path: Path, count: int) -> bytes:
    """Return the first `count` lines of a file; nothing if there is no file."""
    if not count or not path.is_file():
        return b""
    with path.open("rb") as file:
        return b"".join(islice(file, count))


def begin_trace(metrics: Mapping[str, float]) -> Trace:
    """Start a trace from the validation metrics before the first update; floats as hexadecimals, which are exact."""
    return {"validation": {name: value.hex() for name, value in metrics.items()}, "steps": [], "weights": None}


def add_to_trace(trace: Trace, loss: float, gradient_norm: float, weights: Weights) -> None:
    """Add one update: its loss, its gradient norm and, after the last update, the sha256 over all weights."""
    if len(trace["steps"]) < TRACED:
        trace["steps"].append([loss.hex(), gradient_norm.hex()])
        if len(trace["steps"]) == TRACED:
            digest = hashlib.sha256()
            for name, value in weights():
                array = value.detach().cpu().contiguous().numpy()
                digest.update(f"{name}\0{array.dtype}\0{array.shape}\0".encode())
                digest.update(array.data)
            trace["weights"] = digest.hexdigest()


def trace_difference(before: Trace, now: Trace) -> str | None:
    """Return the first difference between two traces as a message; None if every bit is equal."""
    then_by_name, now_by_name = _numbers(before), _numbers(now)
    for name in then_by_name | now_by_name:
        a, b = then_by_name.get(name), now_by_name.get(name)
        if a != b:
            a, b = ("absent" if one is None else repr(float.fromhex(one)) for one in (a, b))
            return f"{name}: {a} then, {b} now"
    return None if before["weights"] == now["weights"] else f"weights after update {TRACED}"


def _numbers(trace: Trace) -> dict[str, str]:
    """Return a trace's numbers by a name that a message can show, in the order of the updates."""
    return {f"validation {name} before the first update": value for name, value in trace["validation"].items()} | {
        f"{name} of update {step}": value
        for step, pair in enumerate(trace["steps"], start=1)
        for name, value in zip(("loss", "gradient norm"), pair, strict=True)
    }
