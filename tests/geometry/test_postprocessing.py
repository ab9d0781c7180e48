"""Post-processing against its definition: top directions are removed, or variances are equal."""

import numpy as np
import pytest

from isoscope.errors import InputError
from isoscope.geometry.isotropy import anisotropy
from isoscope.geometry.postprocessing import all_but_the_top, whiten

RANDOM = np.random.default_rng(0)
TRAIN = RANDOM.standard_normal((80, 6)) * [9, 5, 1, 1, 0.5, 0.1] + 4.0
TEST = RANDOM.standard_normal((40, 6)) * [9, 5, 1, 1, 0.5, 0.1] + 4.0


def test_whitening_makes_the_covariance_the_identity() -> None:
    np.testing.assert_allclose(np.cov(whiten(TRAIN, TRAIN, 6).T), np.eye(6), atol=1e-12)
    np.testing.assert_allclose(whiten(TRAIN, TRAIN, 6).mean(0), 0, atol=1e-12)
    assert whiten(TEST, TRAIN, 3).shape == (40, 3)
    assert np.abs(np.cov(whiten(TEST, TRAIN, 6).T) - np.eye(6)).max() > 0.01, "fitted on other points"


def test_all_but_the_top_leaves_nothing_along_the_top() -> None:
    left = all_but_the_top(TEST, TRAIN, 2)
    directions = np.linalg.svd(TRAIN - TRAIN.mean(0))[2]
    np.testing.assert_allclose(left @ directions[:2].T, 0, atol=1e-12)
    np.testing.assert_allclose(left @ directions[2:].T, (TEST - TRAIN.mean(0)) @ directions[2:].T, atol=1e-12)
    assert anisotropy(left, 1)[0] < anisotropy(TEST, 1)[0]


@pytest.mark.parametrize("function", [all_but_the_top, whiten])
@pytest.mark.parametrize("components", [0, 7])
def test_more_directions_than_there_are_are_refused(function, components: int) -> None:
    with pytest.raises(InputError, match=f"components: {components}; expected 1 to 6"):
        function(TEST, TRAIN, components)
    with pytest.raises(InputError, match="points: 5 dimensions, but fitted on 6"):
        function(TEST[:, :5], TRAIN, 1)


def test_directions_without_variance_are_not_blown_up() -> None:
    flat = TRAIN * [1, 1, 1, 1, 0, 0]
    with pytest.raises(InputError, match="components: 5, but only 4 directions have variance"):
        whiten(TEST, flat, 5)
