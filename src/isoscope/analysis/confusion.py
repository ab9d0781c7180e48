"""Confusion matrices of finished runs, as a tidy table."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from isoscope.analysis.outputs import read_output, read_predictions
from isoscope.errors import InputError
from isoscope.metrics.classification import confusion_matrix

CONFUSION = ["study", "arm", "seed", "actual", "predicted", "count"]


def confusion(outputs: Sequence[Path]) -> pd.DataFrame:
    """How often each run predicted each class for each actual class on the test split.

    Columns study, arm, seed, actual, predicted (names of classes, in their order), count; empty cells stand as 0, so a
    run of C classes gives C² rows whose counts add up to the test split. Raises `InputError` where runs of one study
    name their classes differently.
    """
    tables = []
    names: dict[str, tuple[str, ...]] = {}
    for folder in outputs:
        output = read_output(folder)
        run, labels = output.run, output.labels
        if names.setdefault(run.study, labels) != labels:
            raise InputError(f"{folder}: its classes are {labels}, others of {run.study} have {names[run.study]}")
        table = read_predictions(output)
        counts = confusion_matrix(table["label"], table["predicted"], len(labels))
        actual, predicted = np.indices(counts.shape).reshape(2, -1)
        tables.append(
            pd.DataFrame(
                {
                    "study": run.study,
                    "arm": run.arm,
                    "seed": run.seed,
                    "actual": [labels[index] for index in actual],
                    "predicted": [labels[index] for index in predicted],
                    "count": counts.ravel(),
                }
            )
        )
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=CONFUSION)
