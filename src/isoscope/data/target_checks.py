"""Whether there is something to learn: classes, scores or sets of labels that differ."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from isoscope.base.errors import InputError

LEAST_SPREAD, LEAST_STEPS = 1e-3, 1000
"""Least range of the scores of train: as a number (tables have six decimals), and in steps of single precision."""


def check_targets(splits: Mapping[str, pa.Table], labels: Sequence[str], source: str, target: str) -> None:
    """Check that every split has two classes (or train two scores or sets of labels), and that class names differ.

    `target`: the column that is predicted: label, score or labels; `labels`: the names of its classes.
    """
    if target != "score" and not labels:
        raise InputError(f"{source}: no row of train has a label; a model needs labels to learn from")
    values = splits["train"][target].to_pylist()
    if target != "label" and all(one == values[0] for one in values):
        what = values[0] if target == "score" else [labels[one] for one in values[0]]
        raise InputError(f"{source}: every row of train has the same {target}: {what}; there is nothing to learn")
    if target == "score":
        _check_spread(np.array(values), source)
    for split, table in splits.items():
        if "label" in table.column_names and len(found := table["label"].unique()) == 1:
            only = labels[found[0].as_py()]
            raise InputError(f"{source}: {split} has only one class ({only!r}); a classifier needs two or more")
    if len(set(labels)) != len(labels):
        raise InputError(f"{source}: class names repeat: {', '.join(labels)}")


def _check_spread(scores: Any, source: str) -> None:
    """Check that models, which compute in single precision, and tables can tell the scores of train apart."""
    spread, step = float(np.ptp(scores)), float(np.spacing(np.float32(np.abs(scores).max())))
    found = f"{source}: the scores of train differ by {spread:g} at most, "
    if spread < LEAST_SPREAD:
        raise InputError(f"{found}which tables would show as 0; multiply them by a constant, such as 1e6")
    if spread < LEAST_STEPS * step:
        raise InputError(
            f"{found}and in single precision numbers of their size are {step:g} apart; subtract a constant from them, "
            f"such as {scores.min():.15g}"
        )
