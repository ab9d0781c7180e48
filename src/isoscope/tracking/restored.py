"""The record of a run from its published output, where the record itself is on another machine."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from isoscope.config.tree import flatten, read_yaml
from isoscope.errors import InputError
from isoscope.paths import processed
from isoscope.tracking.lines import FINISHED, Artifact, Checkpoint, Dataset, End, Point, Run, RunRecord
from isoscope.tracking.provenance import dvc_md5, file_md5s, tree_md5

CONFIG, METRICS = "config.yaml", "metrics.jsonl"
CONTEXTS = {"train": "training", "validation": "validation", "test": "test"}  # split → MLflow's word


def restored(output: Path, *, root: Path, t: int) -> RunRecord:
    """The record of the finished run in the folder `output` of the project in `root`.

    What the output does not hold (times, attempts, speeds, the environment) is lacking; every time is `t`, Unix
    milliseconds, as of the commit that brought the output. Raises `InputError` where `output` is no finished run.
    """
    config = read_yaml(output, Path(CONFIG))
    record = RunRecord(restored=True)
    try:
        names: dict[str, Any] = {name: config.get(name) for name in ("study", "arm", "seed", "task")}
        axes, params, inputs = (config.get(name) or {} for name in ("axes", "params", "inputs"))
        stage = config.get("stage") or "train"
        run = Run(t, config["digest"], stage, **names, axes=axes, params=flatten(params), inputs=inputs)
        record.run = run._replace(code=config.get("code"))
        record.metrics = [_point(t, line) for line in (output / METRICS).read_text("utf-8").splitlines()]
    except FileNotFoundError:
        raise InputError(f"{output / METRICS}: no such file; get it with dvc pull") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{output}: not the output of a finished run ({error!r}); train it again") from error
    where = output.resolve().relative_to(root.resolve()).as_posix()
    md5s = file_md5s(output)
    record.checkpoints = _checkpoints(md5s, where, t, record.metrics)
    record.datasets = _datasets(root, t, run)
    record.artifacts = [Artifact(t, str((output / CONFIG).resolve()), CONFIG)]
    record.end = End(t, FINISHED, output=where, output_md5=tree_md5(md5s))
    return record


def _point(t: int, line: str) -> Point:
    fields = json.loads(line)
    return Point(t, fields["name"], float(fields["value"]), fields["step"], fields.get("epoch"))


def _checkpoints(md5s: dict[str, str], where: str, t: int, points: list[Point]) -> list[Checkpoint]:
    """One for each kept epoch, with the metrics of that epoch."""
    folders: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for path, md5 in md5s.items():
        if found := re.fullmatch(r"checkpoints/(epoch-\d+)/(.+)", path):
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
    """The splits, where the prepared task is at hand and the very one that was read."""
    if run.task is None or not (root / processed(run.task)).is_dir():
        return []
    where = processed(run.task)
    if dvc_md5(root / where) != run.inputs.get(where.as_posix()):
        return []
    files = {split: where / f"{split}.parquet" for split in CONTEXTS}
    return [
        Dataset(t, f"{run.task}/{split}", CONTEXTS[split], dvc_md5(root / file), file.as_posix())
        for split, file in files.items()
    ]
