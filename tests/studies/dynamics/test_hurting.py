"""How often an allocation hurts, and how often noise alone would look so."""

import numpy as np
import pytest

from isoscope.studies.dynamics.hurting import hurting, hurts_surely


def test_the_bound_is_students() -> None:
    """Eight numbers of mean 1: the lower bound is 0 where sd/√8 is 1 / 2.3646."""
    shape = np.array([1, -1, 1, -1, 1, -1, 1, -1]) * np.sqrt(7 / 8)  # of sd 1
    edge = np.sqrt(8) / 2.364624
    folds = 1 + np.stack([shape * edge * 0.999, shape * edge * 1.001], 1)
    assert hurts_surely(folds).tolist() == [True, False]
    assert hurts_surely(np.full((8, 1), 0.3)).tolist() == [True]
    assert hurts_surely(np.zeros((8, 1))).tolist() == [False]


def test_expectations_need_no_draw_for_few_folds_and_a_stated_draw_for_many() -> None:
    draw = np.random.default_rng(1)
    few, many = draw.standard_normal((4, 500)), draw.standard_normal((16, 500))
    assert hurting(few) == hurting(few, flips=1, seed=3)
    assert hurting(many, flips=2000) == hurting(many, flips=2000)
    assert hurting(many, flips=2000, seed=1) != hurting(many, flips=2000)
    assert hurting(many, flips=2000).surely_by_noise / 500 == pytest.approx(0.025, abs=0.01)


def test_noise_is_counted_from_deviations_alone() -> None:
    """A shift changes what is observed, not what noise gives."""
    folds = np.random.default_rng(2).standard_normal((8, 4000))
    plain, shifted = hurting(folds), hurting(folds - 3)
    assert shifted.hurts < 20 < plain.hurts
    assert shifted.hurts_by_noise == pytest.approx(plain.hurts_by_noise)
    assert shifted.surely_by_noise == pytest.approx(plain.surely_by_noise)


def test_what_did_not_move_neither_hurts_nor_is_expected_to() -> None:
    folds = np.concatenate([np.zeros((8, 30)), np.random.default_rng(3).standard_normal((8, 10))], 1)
    found = hurting(folds)
    assert found.cases == 40
    assert found.hurts_by_noise == pytest.approx(5.0)


def test_one_fold_has_no_noise() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        hurting(np.zeros((1, 3)))
