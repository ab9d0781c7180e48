"""Lines of a record: one type per kind of line, and `RunRecord`, which collects them.

Files may come from elsewhere: each field is checked where it is read, and a name must not lead out of its folder.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from annotated_types import Ge, Lt, MinLen, Predicate

from isoscope.base.entry import misfit
from isoscope.base.paths import LONGEST

FINISHED, FAILED, KILLED, RUNNING = "FINISHED", "FAILED", "KILLED", "RUNNING"
TRAIN = "train"
DIFF = "diff.patch"
PLUGIN = "isoscope.plugin."
"""Prefix of a tag: a plugin's file → sha256 of its code."""
SEARCH = "isoscope.search"
"""Tag of a training run that a search has begun: the name of the search's experiment."""
_SUM = re.compile(rb', "sum": "([0-9a-f]{16})"\}$')
_NO_PART = re.compile(r"[/\\\x00-\x1f\x7f]|^\.{0,2}$")


def _is_digest(text: str) -> bool:
    """64 hexadecimal digits"""
    return re.fullmatch(r"[0-9a-f]{64}", text) is not None


def is_part(name: str) -> bool:
    """a name without '/' that is not too long"""
    return len(name) <= LONGEST and not _NO_PART.search(name)


def is_inside(path: str) -> bool:
    """a relative path without '..'"""
    return not {"", "..", "."} & set(re.split(r"[/\\]", path)) and "\0" not in path


def _is_tags(tags: Mapping[str, str]) -> bool:
    """a search whose name is no path"""
    return is_part(tags.get(SEARCH, TRAIN))


Part = Annotated[str, Predicate(is_part)]
Count = Annotated[int, Ge(0), Lt(2**63)]


class Run(NamedTuple):
    """Identity of the run. `params`: by dotted name; `inputs`: path → md5; `parent`: digest of the parent run in
    MLflow; `tags`: additional tags; `t`, here and below: Unix milliseconds.
    """

    t: int
    digest: Annotated[str, Predicate(_is_digest)]
    stage: Part
    study: Part | None = None
    arm: Part | None = None
    seed: Count | None = None
    task: Part | None = None
    axes: Mapping[str, str] = {}
    params: Mapping[str, Any] = {}
    inputs: Mapping[str, str] = {}
    code: str | None = None
    parent: str | None = None
    tags: Annotated[Mapping[str, str], Predicate(_is_tags)] = {}

    @property
    def title(self) -> str:
        """Arm and seed, after the stage unless it is training; without arm: the stage and its study or task."""
        name = self.arm or self.study or self.task or ""
        if self.stage != TRAIN and not name.startswith(f"{self.stage} "):  # "trial 3", "search fusion"
            name = f"{self.stage} {name}".strip()
        return name if self.seed is None else f"{name} seed {self.seed}"


def plugin_tags(plugins: Mapping[str, str]) -> dict[str, str]:
    """Return the tags of a run that uses these plugins: file → sha256."""
    return {f"{PLUGIN}{Path(file).name}": digest for file, digest in plugins.items()}


class Attempt(NamedTuple):
    """Start of a process; `parent_run`: id of the enclosing MLflow run."""

    t: int
    host: str
    pid: int
    git: Mapping[str, Any]  # commit, dirty, diff_sha256
    environment: Mapping[str, Any]
    parent_run: str | None = None
    job: Mapping[str, Any] | None = None  # of Slurm: id, node and log file
    began: Mapping[str, Any] | None = None  # with a kept state of a shorter run: its digest and update
    estimate: Mapping[str, Any] | None = None  # what `durations` expected


class Point(NamedTuple):
    """Value of a metric at a step."""

    t: int
    name: Annotated[str, MinLen(1)]
    value: float
    step: Count
    epoch: Count | None = None


class Dataset(NamedTuple):
    """A split that the run read. `context`: training, validation or test; `digest`: DVC's md5."""

    t: int
    name: str
    context: str
    digest: str
    path: str
    rows: int | None = None


class Artifact(NamedTuple):
    """A small file to log with the run: absolute `path`, and artifact `name`."""

    t: int
    path: str
    name: Annotated[str, Predicate(is_inside)]


class Checkpoint(NamedTuple):
    """Stored weights: `path` relative to the project, DVC's `md5`, and `metrics` of these weights."""

    t: int
    name: str
    epoch: int | None
    step: int
    path: str
    md5: str
    metrics: Mapping[str, float | Literal["NaN", "Infinity", "-Infinity"]] = {}


class End(NamedTuple):
    """End of an attempt: status FINISHED, FAILED or KILLED, and where its output was published."""

    t: int
    status: str
    reason: str | None = None
    output: str | None = None
    output_md5: str | None = None


class AcceptedVersion(NamedTuple):
    """A code version that reproduces the run's golden trace: `code`, and the run's `digest` under it."""

    t: int
    code: str
    digest: str


class Repair(NamedTuple):
    """Repair up to here: total `damaged` lines, and number of points `refilled` from the run's output."""

    t: int
    damaged: int
    refilled: int


KINDS: dict[str, Any] = {
    "run": Run,
    "attempt": Attempt,
    "metric": Point,
    "dataset": Dataset,
    "artifact": Artifact,
    "checkpoint": Checkpoint,
    "end": End,
    "accepted": AcceptedVersion,
    "mended": Repair,
}
LISTS: dict[Any, str] = {
    Attempt: "attempts",
    Point: "metrics",
    Dataset: "datasets",
    Artifact: "artifacts",
    Checkpoint: "checkpoints",
    AcceptedVersion: "accepted",
}


def parsed(kind: Any, fields: Mapping[str, Any]) -> Any:
    """Return `fields` as a `kind` of line, without the fields of later versions."""
    item = kind(**{name: fields[name] for name in kind._fields if name in fields})
    return item._replace(value=float(item.value)) if kind is Point else item  # NaN and ±∞ are text in JSON


def check(item: Any) -> None:
    """Raise `ValueError`, in one line, for the first field of a line that has a wrong type or form."""
    for name, value in item._asdict().items():
        if fault := misfit(value, item.__annotations__[name], name):
            raise ValueError(fault)


def summed(text: str) -> bytes:
    """Return a line's JSON object with its checksum as last field."""
    return f'{text[:-1]}, "sum": "{_checksum(text.encode())}"}}'.encode()


def _checksum(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:16]


@dataclass
class RunRecord:
    """Contents of a record, in the order of its lines.

    `damaged`: number of skipped lines, which are not valid JSON (for example truncated by a kill) or do not match their
    checksum; `mended` of them were repaired. Records of earlier versions have no checksums: a line without checksum is
    valid if no line with a checksum precedes it. `latest`: the latest time in the record. `restored`: built from a
    published output because the record is missing; its times are placeholders.
    """

    run: Run | None = None
    attempts: list[Attempt] = field(default_factory=list)
    metrics: list[Point] = field(default_factory=list)
    datasets: list[Dataset] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    accepted: list[AcceptedVersion] = field(default_factory=list)
    end: End | None = None
    damaged: int = 0
    mended: int = 0
    latest: int = 0
    restored: bool = False
    path: Path | None = None
    _before_end: int = 0
    _before_finish: int | None = None
    _summed: bool = False

    def add(self, line: bytes) -> None:
        """Parse and add a line; ignore kinds and fields of later versions."""
        if found := _SUM.search(line):
            self._summed, line = True, line[: found.start()] + b"}"
        if self._summed and not (found and found[1].decode() == _checksum(line)):
            self.damaged += 1
            return
        try:
            fields = json.loads(line)
            kind = KINDS.get(fields.pop("kind"))
            if kind is None:
                return
            item = parsed(kind, fields)
            if kind is not Point or not found:  # there are many, and their checksum vouches for them
                check(item)
        except (ValueError, TypeError, KeyError, AttributeError):
            self.damaged += 1
            return
        self.take(item)

    def take(self, item: Any) -> None:
        """Add a parsed line."""
        self.latest = max(self.latest, item.t)
        if isinstance(item, Run):
            self.run = self.run or item
        elif isinstance(item, Repair):
            self.mended = item.damaged
        elif isinstance(item, End):
            if self.end and self.end.status == item.status == FINISHED and len(self.attempts) == self._before_end:
                item = item._replace(t=self.end.t)  # only published again: no work since
            self.end = item
            self._before_end = len(self.attempts)
            if item.status == FINISHED and self._before_finish is None:
                self._before_finish = self._before_end
        else:
            getattr(self, LISTS[type(item)]).append(item)

    @property
    def status(self) -> str:
        """Status of the last end; RUNNING if there is none, or if a failed or killed run was started again."""
        if self.end is None:
            return RUNNING
        resumed = len(self.attempts) > self._before_end
        return RUNNING if resumed and self._before_finish is None else self.end.status

    @property
    def author(self) -> Attempt | None:
        """The attempt that produced the numbers: the last attempt that started before the run finished."""
        attempts = self.attempts[: self._before_finish]
        return attempts[-1] if attempts else None


def plain(value: Any) -> Any:
    """Return `value` as strict JSON data: mappings and sequences copied, NaN and ±∞ as strings that float() reads."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
