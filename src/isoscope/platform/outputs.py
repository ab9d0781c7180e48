"""Read the output of a finished training run."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

import pandas as pd
import pyarrow.parquet as pq

from isoscope.base.errors import InputError
from isoscope.platform.config.base import Direction
from isoscope.platform.config.objective import GENERATED, METRICS
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.runs.restored import OBJECTIVE, read_metrics

CONFIG, PREDICTIONS, TRANSLATIONS = Path("config.yaml"), Path("predictions.parquet"), Path("translations.parquet")


class Trained(NamedTuple):
    """Identity of a training run: names, and everything that determines its numbers."""

    study: str
    arm: str
    seed: int
    task: str
    digest: str
    code: str
    """Code version: sha256 of the sources that can change its numbers."""
    inputs: dict[str, str]
    """Path of each input → DVC's md5."""
    plugins: dict[str, str]
    """Plugin file → sha256."""


class Output(NamedTuple):
    """A finished run and the folder with its files."""

    folder: Path
    run: Trained
    labels: tuple[str, ...]
    """Name of class 0, 1, …"""
    objective: str
    """Kind of its section `objective`."""
    params: dict[str, Any]
    """Its sections of the configuration."""
    better: Mapping[str, Direction] = MappingProxyType({})
    """Metric → better direction, the most important first; a metric that its objective does not declare is absent."""


def read_output(folder: Path) -> Output:
    """Return the run in `folder`, read from its config.yaml.

    Raises `InputError` if the folder is not a finished run.
    """
    try:
        config = read_yaml(folder, CONFIG)
        run = Trained(
            str(config["study"]),
            str(config["arm"]),
            int(config["seed"]),
            task=str(config["task"]),
            digest=str(config["digest"]),
            code=str(config["code"]),
            inputs={str(path): str(md5) for path, md5 in config["inputs"].items()},
            plugins={str(name): str(sha256) for name, sha256 in config["plugins"].items()},
        )
        objective = config["params"].get("objective", {"kind": "classification"})  # older runs have no such section
        labels = tuple(map(str, config["labels"]))
        kind, params = str(objective["kind"]), dict(config["params"])
    except InputError as error:
        raise InputError(f"{folder}/{error}; is this the output of a finished training run?") from None
    except KeyError as missing:
        raise InputError(f"{folder / CONFIG}: key {missing} is missing; train this run again") from None
    except (TypeError, AttributeError, ValueError):
        raise InputError(f"{folder / CONFIG}: not the config of a training run; train this run again") from None
    return Output(folder, run, labels, kind, params, directions(folder, kind))


def directions(folder: Path, kind: str) -> dict[str, Direction]:
    """Return metric → better direction of a run whose objective is `kind`; of a plugin: as `OBJECTIVE` says.

    Without that file (a run of an earlier version), no direction of a plugin's metric is known. Raises `InputError` for
    a damaged file.
    """
    if kind in METRICS:
        return {**METRICS[kind], **GENERATED.get(kind, {})}
    file = folder / OBJECTIVE
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text("utf-8"))["metrics"]
        if not set(found.values()) <= set(get_args(Direction)):
            raise ValueError(f"directions {sorted(map(str, found.values()))}")
        return {str(name): way for name, way in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file}: not the metrics of an objective ({error}); train this run again") from None


def epochs_by_update(output: Path) -> dict[int, int]:
    """Return update → epoch of each evaluation on the validation split of a finished run."""
    points = (one for one in read_metrics(output) if one.get("epoch") is not None)
    # Points of the test split are logged at the end for the chosen epoch, so they do not map epochs to steps.
    return {int(one["step"]): int(one["epoch"]) for one in points if one["name"].startswith("validation/")}


def weights_by_update(output: Path) -> dict[int, Path]:
    """Return update → folder of the weights that a finished run kept: snapshots, else checkpoints; by update."""
    found = {int(one.name.removeprefix("step-")): one for one in (output / "snapshots").glob("step-*")}
    ends = {epoch: update for update, epoch in epochs_by_update(output).items()}
    for one in (output / "checkpoints").glob("epoch-*"):
        found.setdefault(ends[int(one.name.removeprefix("epoch-"))], one)
    return dict(sorted(found.items()))


def read_predictions(output: Output) -> pd.DataFrame:
    """Return a run's predictions on the test split, in the order of its rows: columns row, label, predicted."""
    path = output.folder / PREDICTIONS
    if not path.is_file():
        raise InputError(f"{path}: no such file; is this the output of a finished training run?")
    try:
        table = pq.read_table(path, columns=["row", "label", "predicted"])
        return table.to_pandas().sort_values("row", ignore_index=True)
    except (OSError, KeyError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as predictions: {str(error).splitlines()[0]}") from None
