"""Read finished runs on the test split: their scores, of classifiers checked; confusion counts; baselines."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, product
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isoscope.base.errors import InputError
from isoscope.metrics.matrix_scores import SCORES, confusion_matrix, constant_scores, pseudo_values, scores
from isoscope.platform.outputs import TRANSLATIONS, Output, read_predictions
from isoscope.platform.results.paired_comparison import Arms, Result
from isoscope.platform.runs.restored import read_metrics
from isoscope.studies.arms import BASELINES
from isoscope.studies.constant_prediction import above_of_text

CONFUSION = ["study", "arm", "seed", "actual", "predicted", "count"]


def results(outputs: Iterable[Output], items: int = 0, manifest: Mapping[str, Any] = MappingProxyType({})) -> Arms:
    """Return the results of finished runs by arm and seed.

    `items`: number of test items of runs without predictions. `manifest`: of the task, for what its runs have to beat.
    Raises `InputError` if predictions contradict the recorded scores, or if runs were tested on different rows.
    """
    arms: dict[str, dict[int, Result]] = {}
    for output in outputs:
        arms.setdefault(output.run.arm, {})[output.run.seed] = result(output, items, manifest)
    runs = [run for seeds in arms.values() for run in seeds.values()]
    for first, run in pairwise(runs):  # differences between runs with other test items are meaningless
        if run.output.run.task != first.output.run.task or not np.array_equal(run.items, first.items):
            raise InputError(
                f"{run.output.folder}: tested on other rows than {first.output.folder}; train both on the same task"
            )
    return arms


def result(output: Output, items: int, manifest: Mapping[str, Any]) -> Result:
    """Return a run's scores on the test split; `manifest`: of its task, for what a language model has to beat.

    - A classifier: its predictions' scores, each item's share of them, and the true classes.
    - Another objective: the recorded metrics of a test split of `items` items; only BLEU has shares by item, if the
      whole split was translated.

    Raises `InputError` if no metric of the test split is recorded, or if a classifier's predictions contradict the
    recorded scores.
    """
    points = {point["name"]: point["value"] for point in read_metrics(output.folder)}
    recorded = {name.removeprefix("test/"): value for name, value in points.items() if name.startswith("test/")}
    if output.objective != "classification":
        if not recorded:
            raise InputError(f"{output.folder}: metrics.jsonl holds no metric of the test split; train this run again")
        above = above_of_text(output, recorded, manifest)
        return Result(output, recorded, _shares(output, items), np.arange(items), above)
    table = read_predictions(output)
    label, predicted = (table[column].to_numpy(dtype=np.int64) for column in ("label", "predicted"))
    known = scores(label, predicted, len(output.labels))
    for metric, score in known.items():
        if metric not in recorded:
            raise InputError(f"{output.folder}: metrics.jsonl holds no test/{metric}; train this run again")
        if not np.isclose(recorded[metric], score, rtol=0, atol=1e-6):
            raise InputError(
                f"{output.folder}: test/{metric} is {recorded[metric]:.6f} in metrics.jsonl, but {score:.6f} by "
                "predictions; train this run again"
            )
    shares = {name: pseudo_values(SCORES[name], label, predicted, len(output.labels)) for name in known}
    constant = constant_scores(label, len(output.labels))
    return Result(output, known, shares, label, {name: known[name] - constant[name] for name in known})


def _shares(output: Output, items: int) -> dict[str, NDArray[np.float64]]:
    """Return each test item's share of a translation's BLEU, if all were translated."""
    file = output.folder / TRANSLATIONS
    if not file.is_file():
        return {}
    table = pd.read_parquet(file)
    whole = "bleu_share" in table and len(table) == items and table["bleu_share"].notna().all()
    return {"bleu": table["bleu_share"].to_numpy(np.float64)} if whole else {}


def confusion(outputs: Sequence[Output]) -> pd.DataFrame:
    """Count each run's predictions of each class for each actual class on the test split.

    Columns study, arm, seed, actual, predicted (names of classes, in their order), count. Empty cells are 0: a run of C
    classes has C² rows, whose counts sum to the size of the test split.
    """
    rows = []
    for output in outputs:
        table = read_predictions(output)
        counts = confusion_matrix(table["label"], table["predicted"], len(output.labels))
        cells = zip(product(output.labels, repeat=2), counts.ravel().tolist(), strict=True)
        rows += [(*output.run[:3], *classes, count) for classes, count in cells]
    return pd.DataFrame(rows, columns=CONFUSION)


def baselines_on_test(manifest: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return name → accuracy, f1, matthews and n on the test split: majority class of train, then TF-IDF classifiers.

    A text task has no classifiers: its language models are not comparable with a run's scores, so nothing is returned.
    Raises `InputError` if the manifest lacks their counts or scores.
    """
    try:
        if manifest.get("labels") == []:
            return {}
        train, test = (list(manifest["splits"][split]["labels"].values()) for split in ("train", "test"))
        counts = np.zeros((len(test), len(test)), dtype=np.int64)
        counts[:, int(np.argmax(train))] = test
        found = {"majority class": {"n": float(sum(test)), **{name: score(counts) for name, score in SCORES.items()}}}
        for key, splits in manifest["baselines"].items():
            found[BASELINES.get(key, key)] = {name: float(splits["test"][name]) for name in ("n", *SCORES)}
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"manifest.json: {error} is missing or malformed; prepare the task again") from None
    return found
