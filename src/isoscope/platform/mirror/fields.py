"""What MLflow is told of a record (names, parameters, tags, links, within its limits), and where. Imports no MLflow.

Experiment ids are noted by address, without credentials, so that the report can link to MLflow.
"""

import hashlib
import json
import os
import posixpath
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from math import copysign, isinf
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from isoscope.base.atomic_files import write_text
from isoscope.platform.config.tree import as_text
from isoscope.platform.mirror.browsing import (
    ARM_AND_SETTING,
    CHANGED,
    ORDER,
    ORDERS,
    READS,
    UNCHANGED,
    arm_and_setting,
    reads,
)
from isoscope.platform.runs.lines import DIFF, TRAIN, Artifact, Dataset, Point, Run, RunRecord
from isoscope.platform.runs.secrets import scrub

# MLflow's limits (mlflow.utils.validation).
NAME_LENGTH, PARAM_LENGTH, TAG_LENGTH, DIGEST_LENGTH = 250, 6000, 8000, 36
PARAMS_PER_BATCH, METRICS_PER_BATCH, BATCH_CHARACTERS = 100, 1000, 150_000

DIGEST, TIMESTAMPS, RESTORED = "isoscope.digest", "isoscope.timestamps", "restored"
LACKS = "speeds, load, times, attempts, machine and commit: only the record has them, on the machine that did the work"
CHECKPOINT, ARTIFACT = "isoscope.checkpoint", "isoscope.artifact."
OWN_TAGS = ("isoscope.", "mlflow.source.git.")

LOCAL = "mlflow.db"
EXPERIMENTS = Path(".isoscope/experiments.json")


class Model(NamedTuple):
    """A checkpoint in MLflow: a logged model whose bytes stay with DVC. `key` is unique within the run."""

    key: str
    name: str
    step: int
    params: dict[str, str]
    tags: dict[str, str]
    points: list[Point]


def safe_name(name: str) -> str:
    """Return `name` in MLflow's form: letters, digits, `_-./ :`, at most 250 characters, a normalised path.

    A changed name ends with a hash of the original, so that names stay distinct.
    """
    fitted = posixpath.normpath(re.sub(r"[^/\w.\- :]", "_", name)).lstrip("/.")
    if fitted == name and len(name) <= NAME_LENGTH:
        return name
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{fitted[: NAME_LENGTH - 9]}-{mark}"


def cut(text: str, length: int, size: str = "") -> str:
    """Truncate `text` to `length` characters with a note of its `size` [default: its number of characters].

    Characters that UTF-8 cannot encode become `?`.
    """
    text = text.encode("utf-8", "replace").decode().replace("\0", "?")
    note = f"\n… cut: {size or f'{len(text)} characters'}"
    return text if len(text) <= length else text[: length - len(note)] + note


def params(run: Run) -> dict[str, str]:
    """Return resolved parameters by dotted name; plus study, arm, seed, task and `axis.<name>`, for grouping."""
    who = {"study": run.study, "arm": run.arm, "seed": run.seed, "task": run.task}
    axes = {f"axis.{name}": value for name, value in run.axes.items()}
    known = {**run.params, **axes, **{name: value for name, value in who.items() if value is not None}}
    return {safe_name(name): cut(as_text(value), PARAM_LENGTH) for name, value in known.items()}


def tags(record: RunRecord, run: Run, changes: str = "") -> dict[str, str]:
    """Return tags: identity, inputs, code, environment, outcome; `changes`: of the study's settings, in words.

    Git tags have MLflow's names, others are `isoscope.*`, except `reads`.
    """
    found: dict[str, Any] = {
        DIGEST: run.digest,
        "isoscope.stage": run.stage,
        READS: reads(run),
        ARM_AND_SETTING: arm_and_setting(run, changes),
        CHANGED: (changes or UNCHANGED) if run.stage == TRAIN else None,
        ORDER: ORDERS.get(record.status),
        "isoscope.code": run.code,
        "isoscope.attempts": len(record.attempts) or None,
        "isoscope.accepted_for": ", ".join(sorted({item.code[:12] for item in record.accepted})),
        TIMESTAMPS: RESTORED if record.restored else None,
        "isoscope.lacks": LACKS if record.restored else None,
        "mlflow.source.name": f"isoscope {run.stage}",
        "mlflow.source.type": "LOCAL",
    }
    found |= run.tags
    found |= {f"isoscope.dep.{path}": md5 for path, md5 in run.inputs.items()}
    if record.end is not None:
        found |= {
            "isoscope.reason": record.end.reason,
            "isoscope.output": record.end.output,
            "isoscope.output.md5": record.end.output_md5,
        }
    if (author := record.author) is not None:
        found["mlflow.parentRunId"] = author.parent_run
        found |= {f"isoscope.env.{name}": value for name, value in author.environment.items()}
        if (commit := author.git.get("commit")) is not None:
            found["mlflow.source.git.commit"] = commit
            found["mlflow.source.git.dirty"] = bool(author.git.get("dirty"))
        if (diff := artifacts(record).get(DIFF)) is not None:
            found["mlflow.source.git.diff"] = _head(Path(diff.path))
    return {
        safe_name(name): cut(as_text(value), TAG_LENGTH) for name, value in found.items() if value not in (None, "")
    }


def artifacts(record: RunRecord) -> dict[str, Artifact]:
    """Return artifacts by name: the last of each name, and the diff of the attempt that produced the numbers."""
    author = record.author
    sha = author.git.get("diff_sha256") if author else None
    return {item.name: item for item in record.artifacts if item.name != DIFF or Path(item.path).stem == sha}


def inputs(record: RunRecord) -> dict[tuple[str, str], Dataset]:
    """Return the data sets of a run by name and digest: MLflow distinguishes them only by these."""
    return {(safe_name(item.name), item.digest[:DIGEST_LENGTH]): item for item in record.datasets}


def models(record: RunRecord, run: Run) -> list[Model]:
    """Return checkpoints as logged models; the last version of a checkpoint that a resumed run rewrites."""
    latest = {f"step-{item.step}" if item.epoch is None else f"epoch-{item.epoch}": item for item in record.checkpoints}
    points = record.metrics if latest else []
    by_step = {(point.name, point.step): point for point in points}
    by_epoch: dict[Any, Point] = {(point.name, point.epoch): point for point in points if point.epoch is not None}
    found = []
    for key, item in latest.items():
        # A metric of the model is the run's own point, so that linking them writes no second point.
        own = [
            by_step.get((name, item.step))
            or by_epoch.get((name, item.epoch))
            or Point(item.t, name, float(value), item.step, item.epoch)
            for name, value in item.metrics.items()
        ]
        who = {"study": run.study, "arm": run.arm, "seed": run.seed, "task": run.task, "epoch": item.epoch}
        facts = {"dvc_path": item.path, "md5": item.md5, "step": item.step, **who}
        found.append(
            Model(
                key=key,
                name=re.sub(r"[^\w\- ]", "-", f"{run.title} {key}"),
                step=item.step,
                params={name: as_text(value) for name, value in facts.items() if value is not None},
                tags={DIGEST: run.digest, CHECKPOINT: key},
                points=own,
            )
        )
    return found


def told(status: str, points: Iterable[Any]) -> dict[str, str]:
    """Return a run's status, and of each metric, by MLflow's name, how many points it has and the last."""
    found: dict[str, dict[int, float]] = {}
    for point in points:
        value = copysign(sys.float_info.max, point.value) if isinf(point.value) else point.value  # as MLflow stores it
        found.setdefault(safe_name(getattr(point, "name", None) or point.key), {})[point.step] = value
    return {"status": status} | {name: f"{len(at)} points, the last {at[max(at)]:.12g}" for name, at in found.items()}


def chunks(items: Iterable[Any], count: int) -> Iterator[list[Any]]:
    """Yield `items` in lists of at most `count`, each below the maximum request size of a server."""
    chunk: list[Any] = []
    size = 0
    for item in items:
        width = len(str(item))
        if chunk and (len(chunk) == count or size + width > BATCH_CHARACTERS):
            yield chunk
            chunk, size = [], 0
        chunk.append(item)
        size += width
    if chunk:
        yield chunk


def _head(path: Path) -> str | None:
    """Return a text file truncated to the length of a tag; None if the file is gone."""
    try:
        with path.open("rb") as file:
            text, whole = os.fsdecode(file.read(4 * TAG_LENGTH + 4)), path.stat().st_size
    except OSError:
        return None
    return cut(text, TAG_LENGTH, f"{whole} bytes, whole in {DIFF}")


def address_parts(uri: str) -> SplitResult | None:
    """Return the parts of a tracking address; None of a malformed address."""
    try:
        return urlsplit(uri)
    except ValueError:
        return None


def without_user(parts: SplitResult) -> SplitResult:
    """Return the parts of an address without user and password."""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2])


def address(uri: str | None) -> str:
    """Return a tracking address without credentials: `uri`, or $MLFLOW_TRACKING_URI, or the project's database.

    Of a malformed address, what `scrub` leaves: `mlflow.connect` refuses it.
    """
    given = uri or os.environ.get("MLFLOW_TRACKING_URI") or LOCAL
    parts = address_parts(given)
    return scrub(without_user(parts).geturl() if parts and "@" in parts.netloc else given)


def known_experiments(root: Path, uri: str | None) -> dict[str, str]:
    """Return name → id of the experiments noted for an address."""
    noted = read_notes(root / EXPERIMENTS).get(address(uri), {})
    return {name: str(known) for name, known in noted.items() if isinstance(known, str | int)}


def note_experiment(root: Path, uri: str | None, name: str, known: str) -> None:
    """Note an experiment's id for an address."""
    notes = read_notes(root / EXPERIMENTS)
    here = notes.setdefault(address(uri), {})
    if here.get(name) != known:
        here[name] = known
        write_notes(root / EXPERIMENTS, notes)


def read_notes(path: Path) -> dict[str, dict[str, Any]]:
    """Return a mirror's notes by address; empty without a file. Warns about a damaged file."""
    try:
        if path.exists() and not path.is_file():  # a fifo would block
            raise ValueError("no regular file")
        notes = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        wrong = str(error).splitlines()[0]
    else:
        if isinstance(notes, dict) and all(isinstance(note, dict) for note in notes.values()):
            return notes
        wrong = "expected one object per address"
    _warn(f"{path}: damaged ({wrong}); " + ("remove this folder" if path.is_dir() else "it will be rewritten"))
    return {}


def write_notes(path: Path, notes: Mapping[str, Any]) -> None:
    """Replace a mirror's notes; a folder in their place costs speed and links, so it stops nothing."""
    if not path.is_dir():
        write_text(path, json.dumps(notes), "note", shared=True)


@cache
def _warn(line: str) -> None:
    print(f"warning: {line}", file=sys.stderr)
