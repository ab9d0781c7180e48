"""Read the output of a finished training run."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from isoscope.base.errors import InputError
from isoscope.base.metric import Metric, read
from isoscope.platform.config.declared import metrics_of
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.runs.output_files import CONFIG, OBJECTIVE, best_epoch, read_metrics

PREDICTIONS, TRANSLATIONS = Path("predictions.parquet"), Path("translations.parquet")


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


RUN = TypeAdapter(Trained)


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
    metrics: Mapping[str, Metric] = MappingProxyType({})
    """What its objective declares, by name, the most important first."""


def read_output(folder: Path) -> Output:
    """Return the run in `folder`, read from its config.yaml.

    Raises `InputError` if the folder is not a finished run.
    """
    try:
        config = read_yaml(folder, Path(CONFIG))
        run = RUN.validate_python({field: config[field] for field in Trained._fields})
        labels, params = tuple(map(str, config["labels"])), dict(config["params"])
        kind = str(params["objective"]["kind"])
    except InputError as error:
        raise InputError(f"{folder}/{error}; is this the output of a finished training run?") from None
    except KeyError as missing:
        raise InputError(f"{folder / CONFIG}: key {missing} is missing; train this run again") from None
    except (TypeError, AttributeError, ValueError):
        raise InputError(f"{folder / CONFIG}: not the config of a training run; train this run again") from None
    return Output(folder, run, labels, kind, params, recorded_metrics(folder))


def recorded_metrics(folder: Path) -> dict[str, Metric]:
    """Return the metrics that the objective of a run declared, by name, as the run recorded them: without titles.

    Raises `InputError` for a missing or damaged file.
    """
    file = folder / OBJECTIVE
    try:
        return read(json.loads(file.read_text("utf-8"))["metrics"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file}: not the metrics of an objective ({error}); train this run again") from None


DECLARED = ["objective", *Metric("").recorded]


def table_of_metrics(outputs: Iterable[Output]) -> pd.DataFrame:
    """Return what the objectives of runs declare: objective, name, better, low, high; a name has its first row."""
    rows = [{"objective": output.objective, **one.recorded} for output in outputs for one in output.metrics.values()]
    return pd.DataFrame(rows, columns=DECLARED).drop_duplicates("name", ignore_index=True).astype(object)


def metrics_in(table: pd.DataFrame) -> dict[str, Metric]:
    """Return the metrics of a table of `table_of_metrics` by name, with the titles that they have now."""
    found = read(table[DECLARED[1:]].astype(object).where(table.notna(), None).to_dict("records"))
    known = {kind: metrics_of(kind, generated=True) for kind in table["objective"].unique()}
    return {
        name: known[kind].get(name, one)._replace(**one.recorded)
        for kind, (name, one) in zip(table["objective"], found.items(), strict=True)
    }


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


def chosen_checkpoint(output: Path) -> Path | None:
    """Return the checkpoint of a finished run's chosen epoch; None if it is not there."""
    chosen = output / "checkpoints" / f"epoch-{best_epoch(read_metrics(output))}"
    return chosen if chosen.is_dir() else None


def read_predictions(output: Output) -> pd.DataFrame:
    """Return a run's predictions on the test split, in the order of its rows: row, what is true, what is predicted."""
    path = output.folder / PREDICTIONS
    if not path.is_file():
        raise InputError(f"{path}: no such file; is this the output of a finished training run?")
    try:
        found: pd.DataFrame = pq.read_table(path).to_pandas().sort_values("row", ignore_index=True)
        return found
    except (OSError, KeyError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as predictions: {str(error).splitlines()[0]}") from None
