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
        {"snapshot": f"step-{step}", "step": step, "vectors": "first", "figure": figure, "layer": layer, "value": value}
        for figure, course in zip(NEEDED, (separability, similarity), strict=True)
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


def test_a_fall_without_more_alike_sentences_is_no_homogenisation() -> None:
    rise, apart = np.concatenate([course(0.5, 0.95), course(0.8)]), np.concatenate([course(0.9, 0.4), course(0.3)])
    assert named(table(rise, apart), LABELS, **OPTIONS)["phase"].iloc[-1] == "Morphological changes"
    assert named(table(rise, 1 - apart), LABELS, **OPTIONS)["phase"].iloc[-1] == "Late homogenisation"


@pytest.mark.parametrize("seed", range(5))
def test_a_run_that_never_leaves_chance_is_unstructured(seed: int) -> None:
    """Scores of guessing on 400 sentences at 27 snapshots; three standard errors are passed in 4 % of such runs."""
    score = np.random.default_rng(seed).binomial(400, 0.5, 27) / 400
    assert set(named(table(score, course(0.9, points=27)), LABELS, **OPTIONS)["phase"]) == {"Unstructured"}


def test_one_sentence_less_than_all_is_as_good_as_the_best() -> None:
    """At a best of 1 the plain standard error is 0, and each sentence that is lost would be a phase."""
    score = np.array([0.5, 0.8, 0.9975, 1.0, 0.9975, 0.9975])
    found = named(table(score, course(0.5, points=6)), LABELS, **OPTIONS)["phase"].tolist()
    assert found == ["Unstructured", "Entering structure", *["Maximum separation"] * 4]


def test_the_thresholds_are_those_asked_for() -> None:
    score = np.array([0.5 + 2.9 * CHANCE_ERROR, 0.5 + 3.1 * CHANCE_ERROR, 0.88, 0.89, 0.9])
    made = table(score, course(0.5, points=5))
    first = ["Unstructured", "Entering structure"]
    error = np.sqrt(0.9 * 0.1 / 400)  # .015
    assert 0.9 - error > 0.88
    assert named(made, LABELS, **OPTIONS)["phase"].tolist() == [
        *first, "Entering structure", "Maximum separation", "Maximum separation",
    ]  # fmt: skip
    assert named(made, LABELS, **OPTIONS | {"best": 2.0})["phase"].tolist() == [*first, *["Maximum separation"] * 3]
    assert named(made, LABELS, **OPTIONS | {"chance": 2.8})["phase"].tolist()[0] == "Entering structure"


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
    without = ALL[~((ALL["figure"] == "avg_sim") & (ALL["step"] == 3))]
    assert 3 not in named(without, LABELS, **OPTIONS)["step"].tolist()
    assert phases(named(ALL[ALL["figure"] != "avg_sim"], LABELS, **OPTIONS)) == []
