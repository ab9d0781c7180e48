"""Finished training runs on disk, with consistent curves and predictions."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from ruamel.yaml import YAML
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, matthews_corrcoef

from isoscope.platform.config.declared import metrics_of
from isoscope.platform.outputs import read_output
from isoscope.platform.results.paired_comparison import Arms, Baselines, StudyRuns
from isoscope.platform.results.study_tables import Tables, tables
from isoscope.studies.arms.scores_on_test import results
from isoscope.studies.arms.tables import tables as arms_tables


def digest(study: str, arm: str, seed: int) -> str:
    """Return a stand-in for a run's digest: 64 hexadecimal digits, different for each run."""
    return np.random.default_rng([*f"{study}/{arm}/{seed}".encode()]).bytes(32).hex()


def labels_of(items: int, classes: int) -> NDArray[np.int64]:
    """Return labels of a test split: the same for every run of one size, classes nearly balanced."""
    return np.random.default_rng(items).permutation(np.arange(items) % classes)


def predictions(label: NDArray[np.int64], right: NDArray[np.bool_], classes: int) -> NDArray[np.int64]:
    """Return predictions that are right exactly where `right` is true."""
    return np.where(right, label, (label + 1) % classes)


def write_run(
    root: Path,
    arm: str,
    seed: int,
    *,
    study: str = "fusion",
    task: str = "order",
    right: NDArray[np.bool_] | None = None,
    predicted: NDArray[np.int64] | None = None,
    accuracy: float = 0.8,
    items: int = 120,
    epochs: int = 4,
    labels: tuple[str, ...] = ("negative", "positive"),
    plugins: dict[str, str] | None = None,
    fusion: dict[str, Any] | None = None,
) -> Path:
    """Write a run below `root` and return its folder.

    `right`: which test items it gets right; without it, items are right at random with probability `accuracy`.
    `predicted`: its predictions, in place of those that `right` gives.
    """
    folder = root / study / arm / f"seed-{seed}"
    folder.mkdir(parents=True)
    rng = np.random.default_rng([seed, *arm.encode()])
    label = labels_of(items, len(labels))
    right = rng.random(items) < accuracy if right is None else right
    predicted = predictions(label, right, len(labels)) if predicted is None else predicted
    config: dict[str, Any] = {
        "study": study,
        "arm": arm,
        "seed": seed,
        "task": task,
        "axes": {"fusion": arm},
        "digest": digest(study, arm, seed),
        "code": "c" * 64,
        "plugins": plugins or {},
        "inputs": {f"data/processed/{task}": "0123456789abcdef0123456789abcdef.dir"},
        "params": {
            "objective": {"kind": "classification"},
            "model": {"fusion": fusion or {"kind": arm}},
            "training": {"epochs": epochs},
        },
        "labels": list(labels),
    }
    with (folder / "config.yaml").open("w", encoding="utf-8") as file:
        YAML(typ="safe").dump(config, file)
    declared = [one.recorded for one in metrics_of("classification", generated=True).values()]
    (folder / "objective.json").write_text(json.dumps({"metrics": declared}), "utf-8")
    write_metrics(folder, points(rng, accuracy, epochs) + scores_on_test(label, predicted, epochs))
    logits = rng.normal(size=(items, len(labels))).astype(np.float32)
    columns = {"row": np.arange(items), "label": label, "predicted": predicted}
    columns |= {f"logit_{index}": logits[:, index] for index in range(len(labels))}
    pq.write_table(pa.table(columns), folder / "predictions.parquet")
    return folder


def write_metrics(folder: Path, lines: list[dict[str, Any]]) -> None:
    """Write (or replace) a run's metrics."""
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def points(rng: np.random.Generator, accuracy: float, epochs: int) -> list[dict[str, Any]]:
    """Return learning curves: training improves, validation levels off at `accuracy` and its loss rises again."""
    lines = []
    for epoch in range(epochs + 1):
        learned = 1 - np.exp(-epoch / 2)
        noise = rng.normal(scale=0.01, size=4)
        values = {
            "train/loss": 0.69 - 0.6 * learned + noise[0],
            "train/accuracy": min(0.5 + 0.5 * learned + noise[1], 1.0),
            "validation/loss": 0.69 - 0.3 * learned + 0.02 * max(epoch - 3, 0) + noise[2],
            "validation/accuracy": min(0.5 + (accuracy - 0.5) * learned + noise[3], 1.0),
        }
        for name, value in values.items():
            if epoch or name.startswith("validation"):
                lines.append({"name": name, "value": float(value), "step": 50 * epoch, "epoch": epoch})
    return lines


def scores_on_test(label: NDArray[np.int64], predicted: NDArray[np.int64], epoch: int) -> list[dict[str, Any]]:
    """Compute the scores on the test split with another library."""
    average = "binary" if label.max() == 1 else "macro"
    values = {
        "test/loss": 0.5,
        "test/accuracy": accuracy_score(label, predicted),
        "test/f1": f1_score(label, predicted, average=average, zero_division=0.0),
        "test/matthews": matthews_corrcoef(label, predicted),
        "test/balanced_accuracy": balanced_accuracy_score(label, predicted),
        "test/macro_f1": f1_score(label, predicted, average="macro", zero_division=0.0),
    }
    return [{"name": name, "value": float(value), "step": 50 * epoch, "epoch": epoch} for name, value in values.items()]


def of_runs(folders: Sequence[Path], items: int = 0) -> Arms:
    """Return the results of runs in folders, as the stage `analyse` reads them."""
    return results(map(read_output, folders), items)


def tables_of(
    study: str,
    arms: Arms,
    baselines: Baselines = MappingProxyType({}),
    added: Mapping[str, Any] = MappingProxyType({}),
    **settings: float,
) -> Tables:
    """Return the tables of a study, as the stage `analyse` makes them; `added`: those of its kind."""
    runs = StudyRuns(arms, {}, baselines=baselines)
    settings = {"confidence": 0.95, "power": 0.8, "margin": 0.01} | settings
    return tables(study, runs, {**arms_tables({study: runs}), **added}, **settings)
