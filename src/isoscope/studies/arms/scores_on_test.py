"""Read finished runs on the test split: their scores, checked by their predictions; confusion counts; baselines."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, product
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isoscope.base.errors import InputError
from isoscope.metrics.matrix_scores import confusion_matrix
from isoscope.platform.config.declared import declares
from isoscope.platform.outputs import PREDICTIONS, TRANSLATIONS, Output, read_predictions
from isoscope.platform.results.paired_comparison import Arms, Result
from isoscope.platform.runs.output_files import read_metrics
from isoscope.platform.runs.prepared import target_of
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

    - An objective with predictions per row: their scores, each item's share of them, and what is true of each item.
    - Another objective: the recorded metrics of a test split of `items` items; a language model's
      loss and accuracy have shares by item, and BLEU if the whole split was translated.

    Raises `InputError` if no metric of the test split is recorded, or if predictions contradict the recorded scores.
    """
    points = {point["name"]: point["value"] for point in read_metrics(output.folder)}
    recorded = {name.removeprefix("test/"): value for name, value in points.items() if name.startswith("test/")}
    by_item = declares(output.objective, "by_item")
    if by_item is None:
        if not recorded:
            raise InputError(f"{output.folder}: metrics.jsonl holds no metric of the test split; train this run again")
        above = above_of_text(output, recorded, manifest)
        shown = _shares(output, items)
        for metric, mean in ((name, float(one.mean())) for name, one in shown.items() if name in ("loss", "accuracy")):
            _check_score(output, metric, recorded.get(metric, mean), mean)
        return Result(output, recorded, shown, np.arange(items), above)
    table = read_predictions(output)
    found = {name: one for name, one in by_item(table).items() if name != "loss"}
    for metric, one in found.items():
        if metric not in recorded and metric in output.metrics:
            raise InputError(f"{output.folder}: metrics.jsonl holds no test/{metric}; train this run again")
        _check_score(output, metric, recorded.get(metric, one.score), one.score)
    scores = {name: one.score for name, one in found.items()}
    others = {name: value for name, value in recorded.items() if name not in scores | {"loss": 0}}
    true = table[[name for name in table if re.fullmatch(r"label(_\d+)?|score", name)]].to_numpy()
    above = {name: one.above(scores[name]) for name, one in found.items()}
    return Result(output, scores | others, {name: one.shares for name, one in found.items()}, true, above)


def _check_score(output: Output, metric: str, recorded: float, found: float) -> None:
    """Check that predictions give the recorded score of the test split."""
    if not np.isclose(recorded, found, rtol=1e-6, atol=1e-6):
        raise InputError(
            f"{output.folder}: test/{metric} is {recorded:.6f} in metrics.jsonl, but {found:.6f} by predictions; train "
            "this run again"
        )


def _shares(output: Output, items: int) -> dict[str, NDArray[np.float64]]:
    """Return each test item's share of loss and accuracy of tokens, and of BLEU if all were translated."""
    of_tokens, translated = (output.folder / name for name in (PREDICTIONS, TRANSLATIONS))
    found: dict[str, NDArray[np.float64]] = {}
    if of_tokens.is_file() and (shares := declares(output.objective, "shares")) is not None:
        table = read_predictions(output)
        found = shares(table) if len(table) == items else {}
    if translated.is_file():
        table = pd.read_parquet(translated)
        if "bleu_share" in table and len(table) == items and table["bleu_share"].notna().all():
            found["bleu"] = table["bleu_share"].to_numpy(np.float64)
    return found


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
    """Return name → scores and n on the test split of a task's baselines, such as the constant prediction and TF-IDF.

    A text task has none: its language models are not comparable with a run's scores. Raises `InputError` if the
    manifest lacks their scores.
    """
    try:
        known = manifest["baselines"] if target_of(manifest) else {}
        return {
            BASELINES.get(key, key): {name: float(value) for name, value in splits["test"].items()}
            for key, splits in known.items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"manifest.json: {error} is missing or malformed; prepare the task again") from None


def baselines_of_runs(arms: Arms) -> dict[str, dict[str, float]]:
    """Return name → scores and n on the test split of baselines that runs log as `baseline/<name>/<metric>`.

    A score is the mean over the seeds of the reference arm.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for run in next(iter(arms.values()), {}).values():
        for point in read_metrics(run.output.folder):
            match point["name"].split("/", 2):
                case ["baseline", name, metric]:
                    known = found.setdefault(BASELINES.get(name, name), {"n": [len(run.items)]})
                    known.setdefault(metric, []).append(point["value"])
    return {name: {metric: float(np.mean(one)) for metric, one in known.items()} for name, known in found.items()}
