"""Read the test-split metrics of finished runs of any objective."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isoscope.errors import InputError
from isoscope.outputs import Output, read_points


class Result(NamedTuple):
    """A run's results on the test split."""

    output: Output
    scores: Mapping[str, float]
    """Metric → value."""
    shares: Mapping[str, NDArray[np.float64]]
    """Metric → each test item's share of the score; only metrics that have shares."""
    items: NDArray[np.int64]
    """Identity of the test items: runs are comparable if it is equal."""


def recorded(output: Output) -> dict[str, float]:
    """Return metric → value on the test split, from the run's metrics.jsonl."""
    points = {point["name"]: point["value"] for point in read_points(output)}
    return {name.removeprefix("test/"): value for name, value in points.items() if name.startswith("test/")}


def result(output: Output, items: int) -> Result:
    """Return the recorded metrics of a run on a test split of `items` items; there are no shares by item.

    Raises `InputError` if no metric of the test split is recorded.
    """
    scores = recorded(output)
    if not scores:
        raise InputError(f"{output.folder}: metrics.jsonl holds no metric of the test split; train this run again")
    return Result(output, scores, {}, np.arange(items))
