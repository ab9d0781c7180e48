"""What MLflow is to show of a record: names, parameters, tags and links in MLflow's own bounds, without MLflow."""

import hashlib
import json
import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from isoscope.runs.lines import DIFF, Artifact, Checkpoint, Point, Run, RunRecord

# MLflow's bounds (mlflow.utils.validation).
NAME_LENGTH, PARAM_LENGTH, TAG_LENGTH, DIGEST_LENGTH = 250, 6000, 8000, 36
PARAMS_PER_BATCH, METRICS_PER_BATCH, BATCH_CHARACTERS = 100, 1000, 150_000

DIGEST, TIMESTAMPS, RESTORED = "isoscope.digest", "isoscope.timestamps", "restored"
LACKS = "speeds, times, attempts, machine and commit: only the record has them, on the machine that did the work"
CHECKPOINT, ARTIFACT = "isoscope.checkpoint", "isoscope.artifact."
OWN_TAGS = ("isoscope.", "mlflow.source.git.")


class Input(NamedTuple):
    """A data set as MLflow keeps it; one that serves as several splits names them all in `context`."""

    name: str
    digest: str
    context: str
    path: str
    profile: str


class Model(NamedTuple):
    """A checkpoint as MLflow keeps it: a logged model whose bytes stay with DVC. `key` is unique within the run."""

    key: str
    name: str
    step: int
    params: dict[str, str]
    tags: dict[str, str]
    points: list[Point]


def safe_name(name: str) -> str:
    """`name` as MLflow allows it: letters, digits, `_-./ :`, at most 250, a path that means itself.

    A name that has to be changed gets a hash of the original at its end, so that no two become one.
    """
    fitted = posixpath.normpath(re.sub(r"[^/\w.\- :]", "_", name)).lstrip("/.")
    if fitted == name and len(name) <= NAME_LENGTH:
        return name
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{fitted[: NAME_LENGTH - 9]}-{mark}"


def cut(text: str, length: int) -> str:
    """`text` in at most `length` characters, saying so where it is cut; what UTF-8 cannot hold becomes `?`."""
    text = text.encode("utf-8", "replace").decode().replace("\0", "?")
    note = f"\n… cut: {len(text)} characters"
    return text if len(text) <= length else text[: length - len(note)] + note


def experiment(run: Run) -> str:
    """One experiment per study; a stage outside any study has its own."""
    return run.study or run.stage


def run_name(run: Run) -> str:
    """Arm and seed; for a stage without arms its own name and what it works on."""
    name = run.arm or f"{run.stage} {run.study or run.task or ''}".strip()
    return name if run.seed is None else f"{name} seed {run.seed}"


def params(run: Run) -> dict[str, str]:
    """Resolved parameters by dotted name, with study, arm, seed, task and `axis.<name>`, to group and compare by."""
    who = {"study": run.study, "arm": run.arm, "seed": run.seed, "task": run.task}
    axes = {f"axis.{name}": value for name, value in run.axes.items()}
    known = {**run.params, **axes, **{name: value for name, value in who.items() if value is not None}}
    return {safe_name(name): cut(_text(value), PARAM_LENGTH) for name, value in known.items()}


def tags(record: RunRecord, run: Run) -> dict[str, str]:
    """Identity, inputs, code, environment and outcome; git's under MLflow's own names, the others below `isoscope.`."""
    found: dict[str, Any] = {
        DIGEST: run.digest,
        "isoscope.stage": run.stage,
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
    return {safe_name(name): cut(_text(value), TAG_LENGTH) for name, value in found.items() if value not in (None, "")}


def artifacts(record: RunRecord) -> dict[str, Artifact]:
    """Files to show, by name: the last of each name, and the diff only of the attempt that made the numbers."""
    author = record.author
    sha = author.git.get("diff_sha256") if author else None
    return {item.name: item for item in record.artifacts if item.name != DIFF or Path(item.path).stem == sha}


def inputs(record: RunRecord) -> list[Input]:
    """The data sets of a run. MLflow tells them apart by name and digest alone."""
    found: dict[tuple[str, str], Input] = {}
    for item in record.datasets:
        key = (safe_name(item.name), item.digest[:DIGEST_LENGTH])
        contexts = found[key].context.split(",") if key in found else []
        if item.context not in contexts:
            profile = json.dumps({} if item.rows is None else {"num_rows": item.rows})
            found[key] = Input(*key, ",".join([*contexts, item.context]), item.path, profile)
    return list(found.values())


def models(record: RunRecord, run: Run) -> list[Model]:
    """Checkpoints as logged models; one written again when a run was resumed counts once, as last written."""
    latest: dict[str, Checkpoint] = {}
    for item in record.checkpoints:
        latest[f"epoch-{item.epoch}" if item.epoch is not None else f"step-{item.step}"] = item
    by_step = {(point.name, point.step): point for point in record.metrics} if latest else {}
    by_epoch: dict[tuple[str, int | None], Point] = {}
    if latest:
        by_epoch = {(point.name, point.epoch): point for point in record.metrics if point.epoch is not None}
    found = []
    for key, item in latest.items():
        # A metric of the model is the run's own point, so that linking the two never writes a second one.
        points = [
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
                name=re.sub(r"[^\w\- ]", "-", f"{run_name(run)} {key}"),
                step=item.step,
                params={name: _text(value) for name, value in facts.items() if value is not None},
                tags={DIGEST: run.digest, CHECKPOINT: key},
                points=points,
            )
        )
    return found


def chunks(items: Iterable[Any], count: int) -> Iterator[list[Any]]:
    """`items` in lists of at most `count`, each below the size that a server accepts in one request."""
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


def _text(value: Any) -> str:
    """A value as YAML and JSON write it, a string as it is."""
    return value if isinstance(value, str) else json.dumps(value)


def _head(path: Path) -> str | None:
    """As much of a text file as a tag holds; None where the file is gone."""
    try:
        with path.open("rb") as file:
            text = os.fsdecode(file.read(4 * TAG_LENGTH))
            whole = path.stat().st_size
    except OSError:
        return None
    note = f"\n… cut: {whole} bytes, whole in {DIFF}"
    return text if len(text) <= TAG_LENGTH else text[: TAG_LENGTH - len(note)] + note
