"""Stages of training: planted courses get their names, a course that goes nowhere gets none of them."""

import numpy as np
import pandas as pd
import pytest

from isoscope.analysis.stages import SERIES, stages
from isoscope.errors import InputError

LABELS = np.repeat([0, 1], 200)


def table(separability, fisher, rank, similarity, *, noise: float = 0.01, seed: int = 0) -> pd.DataFrame:
    """The geometry table of one run whose last layer takes these courses; Fisher ratios are given in logs."""
    draw = np.random.default_rng(seed)
    rows = []
    for figure, course in zip(SERIES, (separability, fisher, rank, similarity), strict=True):
        scale = np.ptp(course) or 1.0
        for step, level in enumerate(course):
            value = level + noise * scale * draw.standard_normal()
            given = {"snapshot": f"step-{step}", "step": step, "vectors": "first", "figure": figure}
            rows.append({**given, "layer": 2, "value": np.exp(value) if figure == "fisher_ratio" else value})
            rows.append({**given, "layer": 1, "value": 0.0})
    return pd.DataFrame(rows).astype({"step": "Int64"})


def course(*levels: float, points: int = 9) -> np.ndarray:
    return np.repeat(np.array(levels, dtype=float), points)


def names(found) -> list[str]:
    return [one.name for one in found]


def test_a_course_through_all_stages_gets_their_names() -> None:
    made = table(
        course(0.5, 0.7, 0.95, 0.93, 0.9),
        course(-5, -2, 1, 0.9, 0.2),
        course(30, 25, 10, 4, 4),
        course(0.9, 0.7, 0.2, 0.2, 0.6),
    )
    found = stages(made, LABELS)
    assert names(found) == [
        "Unstructured", "Entering structure", "Maximum separation", "Morphological changes", "Late homogenisation",
    ]  # fmt: skip
    assert [one.step_first for one in found] == [0, 9, 18, 27, 36]
    assert found[-1].step_last == 44


def test_a_run_that_never_leaves_chance_is_unstructured_throughout() -> None:
    draw = np.random.default_rng(3)
    flat = table(
        course(0.5, 0.5, 0.5),
        course(-5, -5, -5),
        course(30, 30, 30),
        course(0.9, 0.9, 0.9) + 0.01 * draw.standard_normal(27),
    )
    assert names(stages(flat, LABELS)) == ["Unstructured"]


def test_the_last_layer_counts_and_so_does_the_order_of_steps() -> None:
    made = table(course(0.5, 0.95), course(-5, 1), course(30, 10), course(0.9, 0.2))
    shuffled = made.sample(frac=1.0, random_state=0)
    assert stages(made, LABELS) == stages(shuffled, LABELS)
    assert [one.step_first for one in stages(made, LABELS)] == [0, 9]


def test_a_measure_that_lacks_is_named() -> None:
    made = table(course(0.5, 0.95), course(-5, 1), course(30, 10), course(0.9, 0.2))
    with pytest.raises(InputError, match="effective_rank not measured"):
        stages(made[made["figure"] != "effective_rank"], LABELS)
