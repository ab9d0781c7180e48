"""Phases of training: planted curves get their names; chance and learning curves match the thresholds only."""

import numpy as np
import pandas as pd
import pytest

from isoscope.states.phases import NEEDED, named, phases

LABELS = np.repeat([0, 1], 200)
OPTIONS = {"chance": 3.0, "best": 1.0, "fall": 0.2}
CHANCE_ERROR = 0.5 / 20  # √(.5 · .5 / 400)


def table(separability: np.ndarray, similarity: np.ndarray) -> pd.DataFrame:
    """Return the geometry table of one run whose last layer follows these curves."""
    rows = [
        {"snapshot": f"step-{step}", "step": step, "vectors": "first", "metric": metric, "layer": layer, "value": value}
        for metric, course in zip(NEEDED, (separability, similarity), strict=True)
        for step, level in enumerate(course)
        for layer, value in ((1, 0.0), (2, level))
    ]
    return pd.DataFrame(rows).astype({"step": "Int64"})


def course(*levels: float, points: int = 5) -> np.ndarray:
    return np.repeat(np.array(levels, dtype=float), points)


ALL = table(course(0.5, 0.7, 0.95, 0.90, 0.8), course(0.9, 0.7, 0.2, 0.2, 0.6))


def test_a_course_through_all_phases_gets_their_names() -> None:
    found = phases(named(ALL, LABELS, **OPTIONS))
    names = ["Unstructured", "Entering structure", "Maximum separation", "Morphological changes", "Late homogenisation"]
    assert [one["name"] for one in found] == names
    assert [(one["snapshots"], one["step_first"], one["step_last"]) for one in found] == [
        (5, 5 * at, 5 * at + 4) for at in range(5)
    ]
    assert found[2]["separability"] == pytest.approx(0.95)
    assert found[4]["avg_sim"] == pytest.approx(0.6)


UNSTRUCTURED, ENTERING, BEST, CHANGES, LATE = (
    "Unstructured",
    "Entering structure",
    "Maximum separation",
    "Morphological changes",
    "Late homogenisation",
)
FALL, APART = course(0.5, 0.95, 0.8), course(0.9, 0.4, 0.3)
NEAR = np.array([0.5 + 2.9 * CHANCE_ERROR, 0.5 + 3.1 * CHANCE_ERROR, 0.88, 0.89, 0.9])
"""Within three standard errors of chance, and beyond; at a best of .9 the standard error is .015."""


@pytest.mark.parametrize(
    "score, similarity, options, expected",
    [
        (FALL, APART, {}, [*[UNSTRUCTURED] * 5, *[BEST] * 5, *[CHANGES] * 5]),
        (FALL, 1 - APART, {}, [*[UNSTRUCTURED] * 5, *[BEST] * 5, *[LATE] * 5]),
        # One sentence less than all is as good as the best: at 1 the plain standard error is 0.
        (
            np.array([0.5, 0.8, 0.9975, 1.0, 0.9975, 0.9975]),
            course(0.5, points=6),
            {},
            [UNSTRUCTURED, ENTERING, *[BEST] * 4],
        ),
        (NEAR, course(0.5), {}, [UNSTRUCTURED, ENTERING, ENTERING, BEST, BEST]),
        (NEAR, course(0.5), {"best": 2.0}, [UNSTRUCTURED, ENTERING, BEST, BEST, BEST]),
        (NEAR, course(0.5), {"chance": 2.8}, [ENTERING, ENTERING, ENTERING, BEST, BEST]),
        # Guessing on 400 sentences at 27 snapshots; three standard errors are passed in 4 % of such runs.
        *(
            (np.random.default_rng(seed).binomial(400, 0.5, 27) / 400, course(0.9, points=27), {}, [UNSTRUCTURED] * 27)
            for seed in range(5)
        ),
    ],
)
def test_phases_follow_from_the_thresholds(
    score: np.ndarray, similarity: np.ndarray, options: dict[str, float], expected: list[str]
) -> None:
    """A fall is a homogenisation only if the sentences become more alike."""
    assert named(table(score, similarity), LABELS, **OPTIONS | options)["phase"].tolist() == expected


def test_a_smooth_learning_curve_never_falls() -> None:
    """1 − exp(−t/6) with noise: the two phases after the best are empty except for noise, and no change is dated."""
    after = 0
    for seed in range(20):
        draw = np.random.default_rng(seed)
        curve = 0.5 + 0.4 * (1 - np.exp(-np.arange(27) / 6)) + 0.005 * draw.standard_normal(27)
        found = named(table(curve, course(0.5, points=27)), LABELS, **OPTIONS)
        after += found["phase"].isin(["Late homogenisation"]).sum()
        assert not {"boundary", "p"} & set(found)
    assert after == 0


def test_the_last_layer_counts_and_the_order_of_rows_does_not() -> None:
    shuffled = ALL.sample(frac=1.0, random_state=0)
    pd.testing.assert_frame_equal(named(ALL, LABELS, **OPTIONS), named(shuffled, LABELS, **OPTIONS))
    without = ALL[~((ALL["metric"] == "avg_sim") & (ALL["step"] == 3))]
    assert 3 not in named(without, LABELS, **OPTIONS)["step"].tolist()
    assert phases(named(ALL[ALL["metric"] != "avg_sim"], LABELS, **OPTIONS)) == []
