"""Finished runs on the test split, whatever they were trained for."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isoscope.errors import InputError
from isoscope.outputs import Output, read_points


class Result(NamedTuple):
    """One run on the test split."""

    output: Output
    scores: Mapping[str, float]
    """Metric → value."""
    shares: Mapping[str, NDArray[np.float64]]
    """Metric → each test item's share of the score, of the metrics that have shares."""
    items: NDArray[np.int64]
    """What tells the test items apart: runs are compared where it is equal."""


def recorded(output: Output) -> dict[str, float]:
    """Metric → value on the test split, as the run's metrics.jsonl has it."""
    points = {point["name"]: point["value"] for point in read_points(output)}
    return {name.removeprefix("test/"): value for name, value in points.items() if name.startswith("test/")}


def result(output: Output, items: int) -> Result:
    """The recorded metrics of a run, of a test split with so many items; no metric is shared out among the items.

    Raises `InputError` where no metric of the test split is recorded.
    """
    scores = recorded(output)
    if not scores:
        raise InputError(f"{output.folder}: metrics.jsonl holds no metric of the test split; train this run again")
    return Result(output, scores, {}, np.arange(items))
