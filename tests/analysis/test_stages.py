"""Stages of training: planted courses get their names, a course that goes nowhere gets none of them."""

import numpy as np
import pandas as pd
import pytest

from isoscope.analysis.stages import METRICS, SERIES, metric_series, series, stages
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


def wandering(seed: int, points: int = 20) -> pd.DataFrame:
    """A run whose geometry goes nowhere: noise that keeps half of itself from snapshot to snapshot."""
    draw, courses = np.random.default_rng(seed), []
    for level in (0.9, 1.0, 10.0, 0.3):
        wander = draw.standard_normal(points)
        for place in range(1, points):
            wander[place] += 0.5 * wander[place - 1]
        courses.append(level + 0.02 * wander)
    return table(*courses, noise=0.0)


def logged(draw: np.random.Generator, level: np.ndarray, *, spread: float) -> list[dict[str, object]]:
    """A loss at each of five updates up to every snapshot; validation at every third snapshot."""
    points: list[dict[str, object]] = [
        {"name": "step/loss", "value": mean + spread * draw.standard_normal(), "step": step, "epoch": None}
        for step, mean in enumerate(level)
    ]
    return points + [
        {"name": f"validation/{name}", "value": 1 + 0.02 * draw.standard_normal(), "step": step, "epoch": step // 3}
        for step in range(0, len(level), 3)
        for name in ("loss", "accuracy")
    ]


def starts(seed: int, shift: float) -> list[int]:
    """Where segments begin in a run whose training loss is shifted so far at its 11th snapshot, and nothing else."""
    level = 0.7 + shift * (np.arange(20) >= 10)
    points = logged(np.random.default_rng((seed, 1)), level, spread=0.02)
    metrics = metric_series(points, list(range(20)))
    return [one.step_first for one in stages(wandering(seed), LABELS, metrics=metrics, seed=seed, draws=119)]


def test_a_change_in_the_training_loss_alone_is_found_where_it_is() -> None:
    """By 20 sd of its noise, the geometry and validation going nowhere."""
    found = [starts(seed, 0.4) for seed in range(10)]
    assert sum(any(abs(step - 10) <= 1 for step in where) for where in found) >= 9


def test_runs_in_which_nothing_changes_have_no_boundary() -> None:
    """At 5 % of 40 runs, in three kinds of series each, 2 false ones are expected; 7 have probability .003."""
    assert sum(len(starts(seed, 0.0)) > 1 for seed in range(40)) < 7


def test_a_snapshots_training_loss_is_the_mean_since_the_one_before() -> None:
    points = [
        *({"name": "step/loss", "value": float(step), "step": step, "epoch": None} for step in range(2, 13, 2)),
        *(
            {"name": "validation/loss", "value": value, "step": step, "epoch": epoch}
            for epoch, (step, value) in enumerate([(0, 0.7), (6, 0.5), (12, 0.4)])
        ),
        {"name": "validation/accuracy", "value": 0.5, "step": 0, "epoch": 0},
        {"name": "test/loss", "value": 9.0, "step": 12, "epoch": 2},
        {"name": "step/learning_rate", "value": 9.0, "step": 4, "epoch": None},
    ]
    found = metric_series(points, [0, 1, 2, 6, 12])
    assert found["step"].tolist() == [0, 1, 2, 6, 12]
    assert found["training_loss"].tolist()[2:] == [2.0, 5.0, 10.0]
    assert found["training_loss"].isna().tolist() == [True, True, False, False, False]  # none was logged up to there
    assert found["validation_loss"].fillna(-1).tolist() == [0.7, -1, -1, 0.5, 0.4]
    assert found["validation_accuracy"].notna().tolist() == [True, False, False, False, False]


def test_metrics_stand_beside_the_geometry_where_there_are_enough_of_them() -> None:
    made = wandering(0)
    points = logged(np.random.default_rng(0), np.ones(20), spread=0.1)
    found = series(made, metric_series(points, list(range(20))))
    assert list(found) == ["step", "snapshot", *SERIES, *METRICS]
    assert found["validation_loss"].notna().sum() == 7
    few = [point for point in points if point["name"] != "validation/loss" or point["step"] < 13]
    assert "validation_loss" not in series(made, metric_series(few, list(range(20))))
    assert list(series(made, metric_series([], list(range(20))))) == ["step", "snapshot", *SERIES]
    assert stages(made, LABELS, metrics=metric_series([], list(range(20)))) == stages(made, LABELS)


def test_boundaries_of_metrics_stand_beside_those_of_the_geometry_at_a_segments_length() -> None:
    made = table(course(0.5, 0.95), course(-5, 1), course(30, 10), course(0.9, 0.2))
    for at, expected in ((5, [0, 5, 9]), (10, [0, 9]), (14, [0, 9, 14])):
        loss = pd.DataFrame({"step": range(18), "training_loss": 1.0 * (np.arange(18) < at)})
        loss["training_loss"] += 0.001 * np.random.default_rng(0).standard_normal(18)
        found = stages(made, LABELS, metrics=loss.assign(validation_loss=np.nan, validation_accuracy=np.nan))
        assert [one.step_first for one in found] == expected
