"""A class is told in unseen groups if and only if the profiles hold it; against scikit-learn."""

import numpy as np
import pytest
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from isoscope.platform.statistics.left_out import left_out

CLASSES = ["masked", "causal", "translation"] * 6
GROUPS = [number // 6 for number in range(18)]
NUMBERS = np.array([sorted(set(CLASSES)).index(one) for one in CLASSES])


def test_a_planted_class_is_told_and_a_class_that_depends_on_the_group_is_not() -> None:
    noise = 0.1 * np.random.default_rng(0).normal(size=(18, 4))
    found = left_out(noise + np.eye(4)[NUMBERS], CLASSES, GROUPS, permutations=99)
    assert (found.n, found.groups, found.accuracy, found.p) == (18, 3, 1.0, 0.01)
    assert found.chance == pytest.approx(1 / 3, abs=0.06)
    other = noise + np.eye(4)[(NUMBERS + GROUPS) % 3]
    assert left_out(other, CLASSES, GROUPS, permutations=99).accuracy < 0.2


@pytest.mark.parametrize("trial", range(3))
def test_the_accuracy_is_scikit_learns(trial: int) -> None:
    profiles = np.random.default_rng(trial).normal(size=(18, 4)) * [1, 5, 0.1, 1] + 0.7 * np.eye(4)[NUMBERS]
    model = make_pipeline(StandardScaler(), NearestCentroid())
    expected = cross_val_score(model, profiles, CLASSES, groups=GROUPS, cv=LeaveOneGroupOut()).mean()
    assert left_out(profiles, CLASSES, GROUPS, permutations=1).accuracy == pytest.approx(expected)


def test_without_a_difference_p_is_as_small_as_it_should_be_rarely() -> None:
    draw = np.random.default_rng(0)
    p = [left_out(draw.normal(size=(18, 3)), CLASSES, GROUPS, permutations=39).p for _ in range(200)]
    assert np.mean(np.array(p) <= 0.1) <= 0.15


def test_a_class_of_the_left_out_group_alone_is_never_told() -> None:
    classes = [f"class {group}" for group in GROUPS]
    assert left_out(np.eye(3)[GROUPS], classes, GROUPS, permutations=1).accuracy == 0


def test_a_single_class_or_group_is_refused() -> None:
    profiles = np.ones((18, 2))
    with pytest.raises(ValueError, match="a single class"):
        left_out(profiles, ["a"] * 18, GROUPS, permutations=1)
    with pytest.raises(ValueError, match="a single group"):
        left_out(profiles, CLASSES, [0] * 18, permutations=1)
