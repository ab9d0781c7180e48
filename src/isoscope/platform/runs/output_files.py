"""The files of an output: metric points, scores, what its config.yaml names, and the record that they give.

If its record is on another machine, it is rebuilt from them. An output holds metric points, checkpoints and parameters.
Speeds, times, the machine and the attempts are only in the record, and a restored run says that it lacks them.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from isoscope.base.errors import InputError
from isoscope.base.paths import FIGURES, processed
from isoscope.platform.config.tree import flatten, read_yaml
from isoscope.platform.runs.card import CARD
from isoscope.platform.runs.lines import (
    FINISHED,
    TRAIN,
    Artifact,
    Checkpoint,
    Dataset,
    End,
    Point,
    Run,
    RunRecord,
    check,
    parsed,
    plugin_tags,
)
from isoscope.platform.runs.provenance import dvc_md5, file_md5s, tree_md5

CONFIG, METRICS, SCORES = "config.yaml", "metrics.jsonl", "metrics.json"
OBJECTIVE = "objective.json"
"""The metrics that a run's objective declares: name, better direction and range, the most important first."""
ANALYSE = "analyse"
_AGAIN = "get it with dvc pull, or train the run"
_DIGEST = re.compile(r"^digest: ([0-9a-f]{64})$", re.MULTILINE)
_PUBLISHED = ("digest", "stage", "study", "arm", "seed", "task", "axes", "params", "inputs", "code")
"""Entries of a published config.yaml about its run."""
CONTEXTS = {"train": "training", "validation": "validation", "test": "test"}  # split → MLflow's context


class _Plugins(NamedTuple):
    """Entry of a published config.yaml: file → sha256 of its code."""

    plugins: Mapping[str, str]


def restored(output: Path, *, root: Path, t: int) -> RunRecord:
    """Return the record of the finished training or analysis run in folder `output` of the project in `root`.

    Every time is `t` (Unix milliseconds), the time of the commit with the output. Raises `InputError` if `output` is
    not a finished run.
    """
    where = _inside(output, root)
    run = identity_of(output, t)
    record = RunRecord(run, restored=True)
    points = read_metrics(output) if run.stage == TRAIN else _scores(output / SCORES) if run.stage == ANALYSE else ()
    record.metrics = [Point(t, one["name"], float(one["value"]), one["step"], one.get("epoch")) for one in points]
    if run.stage != TRAIN:
        files, output_md5 = shown(output), None
    else:
        md5s = file_md5s(output)
        files, output_md5 = [output / CONFIG], tree_md5(md5s)
        record.checkpoints = _checkpoints(md5s, where, t, record.metrics)
        record.datasets = _datasets(root, t, run)
    record.artifacts = [Artifact(t, str(path.resolve()), path.name) for path in files]
    record.end = End(t, FINISHED, output=where, output_md5=output_md5)
    return record


def _inside(output: Path, root: Path) -> str:
    """Return the path of an output relative to its project."""
    place = output.resolve()
    if not place.is_relative_to(root.resolve()):
        raise InputError(f"{output}: a link to {place}, outside the project; replace it with a copy")
    return place.relative_to(root.resolve()).as_posix()


def identity_of(output: Path, t: int) -> Run:
    """Return the run that an output's config.yaml names."""
    try:
        config = read_yaml(output, Path(CONFIG))
    except InputError as error:
        raise InputError(f"{output}/{error}; {_AGAIN}") from None
    given = {name: value for name, value in config.items() if name in _PUBLISHED and value is not None}
    plugins = _Plugins(config.get("plugins") or {})
    try:
        run: Run = parsed(Run, {"digest": None, "stage": TRAIN, **given, "t": t})
        check(run)
        check(plugins)
    except ValueError as error:
        raise InputError(f"{output / CONFIG}: {error}; {_AGAIN}") from None
    return run._replace(params=flatten(run.params), tags=plugin_tags(plugins.plugins))


def shown(folder: Path) -> list[Path]:
    """Return the files of an analysed study to log with its run, without DVC's .gitignore."""
    there = [*sorted(folder.iterdir()), *sorted((folder / FIGURES).glob("*.svg"))]
    return [path for path in there if path.is_file() and not path.name.startswith(".")]


def _scores(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the points of an analysed study's scores. Raises `InputError` if the file is damaged or missing."""
    _check_file(path)
    try:
        for point in score_points(json.loads(path.read_text("utf-8"))):
            check(parsed(Point, {"t": 0, **point}))
            yield point
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path}: not the scores of a study; {_AGAIN}") from None


def _check_file(path: Path) -> None:
    if not path.is_file():  # a fifo would block
        what = "not a regular file" if path.exists() else "no such file"
        raise InputError(f"{path}: {what}; {_AGAIN}")


def score_points(scores: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[dict[str, Any]]:
    """Convert metric → arm → statistic → value to points of the study's run."""
    return [
        {"name": f"test/{metric}/{arm}/{statistic}", "value": value, "step": 0}
        for metric, arms in scores.items()
        for arm, statistics in arms.items()
        for statistic, value in statistics.items()
    ]


def named_digest(config: Path) -> str | None:
    """Return the run digest in an output's config.yaml, under any file name; None if it has none."""
    try:
        match = config.is_file() and _DIGEST.search(config.read_text("utf-8"))  # a fifo would block
    except (OSError, ValueError):
        return None
    return match[1] if match else None


def read_metrics(output: Path) -> list[dict[str, Any]]:
    """Return the points of a training run from the folder `output`."""
    return [*points_of(output / METRICS)]


def best_epoch(points: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the epoch whose weights and test scores are a finished run's result; None of an unfinished run."""
    return next((int(point["value"]) for point in points if point["name"] == "training/best_epoch"), None)


def points_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield every point of a metrics file, under any file name. Raises `InputError` if it is damaged or missing."""
    _check_file(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}; {_AGAIN}") from None
    for number, line in enumerate(lines, start=1):
        try:
            point = json.loads(line)
            check(item := parsed(Point, {"t": 0, **point}))
            yield {**point, "value": item.value}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{path}:{number}: not a metric point (name, value, step, epoch): {line[:80]!r}") from None


def _checkpoints(md5s: dict[str, str], where: str, t: int, points: list[Point]) -> list[Checkpoint]:
    """Return a checkpoint for each kept epoch, with the metrics of that epoch."""
    folders: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for path, md5 in md5s.items():
        found = re.fullmatch(r"checkpoints/(epoch-\d+)/(.+)", path)
        if found and found[2] != CARD:  # as in the record: the card is written when the run is published
            folders[found[1]][found[2]] = md5
    kept = []
    for name, files in folders.items():
        epoch = int(name.removeprefix("epoch-"))
        of_epoch = [point for point in points if point.epoch == epoch]
        step = max((point.step for point in of_epoch if point.name.startswith("validation/")), default=None)
        if step is not None:
            metrics = {point.name: point.value for point in of_epoch}
            kept.append(Checkpoint(t, name, epoch, step, f"{where}/checkpoints/{name}", tree_md5(files), metrics))
    return sorted(kept, key=lambda item: item.step)


def _datasets(root: Path, t: int, run: Run) -> list[Dataset]:
    """Return the splits, if the prepared task is here and equals the task that the run read."""
    if run.task is None:
        return []
    where = processed(run.task)
    if not (root / where).is_dir() or dvc_md5(root / where) != run.inputs.get(where.as_posix()):
        return []
    files = {split: where / f"{split}.parquet" for split in CONTEXTS}
    return [
        Dataset(t, f"{run.task}/{split}", CONTEXTS[split], dvc_md5(root / file), file.as_posix())
        for split, file in files.items()
    ]
