"""Transforms: closed forms, invariances with a negative control, scikit-learn, and what a linear probe can see."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.stats import ortho_group
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from isoscope.base.built_in import TRANSFORMS
from isoscope.geometry import transforms
from isoscope.geometry.contextuality import units
from isoscope.geometry.isotropy import anisotropy
from isoscope.geometry.moments import Floats
from isoscope.geometry.transforms import Map, all_but_the_top, centred, none, standardised, whitened

RANDOM = np.random.default_rng(0)
TRAIN = RANDOM.standard_normal((80, 6)) * [9, 5, 1, 1, 0.5, 0.1] + 4.0
TEST = RANDOM.standard_normal((40, 6)) * [9, 5, 1, 1, 0.5, 0.1] + 4.0
TURN = ortho_group.rvs(6, random_state=np.random.default_rng(1))
FITS: dict[str, Callable[[ArrayLike], Map]] = {name: getattr(transforms, name) for name in TRANSFORMS}


def cosines(points: Floats) -> Floats:
    found: Floats = units(points) @ units(points).T
    return found


def test_whitening_makes_the_covariance_of_the_fitted_points_the_identity() -> None:
    np.testing.assert_allclose(np.cov(whitened(TRAIN)(TRAIN).T), np.eye(6), atol=1e-12)
    np.testing.assert_allclose(whitened(TRAIN)(TRAIN).mean(0), 0, atol=1e-12)
    assert np.abs(np.cov(whitened(TRAIN)(TEST).T) - np.eye(6)).max() > 0.01, "fitted on other points"
    few = TRAIN[:4]  # fewer points than dimensions: λ / (λ + ε), 0 where no point varies
    values = np.linalg.svd(few - few.mean(0), compute_uv=False)[:3] ** 2 / 3
    ridge = transforms.RIDGE * values.sum() / 6
    np.testing.assert_allclose(np.cov(whitened(few)(few).T), np.diag([*values / (values + ridge), 0, 0, 0]), atol=1e-9)
    flat = TRAIN * [1, 1, 1, 1, 0, 0]
    np.testing.assert_allclose(np.cov(whitened(flat)(flat).T), np.diag([1, 1, 1, 1, 0, 0]), atol=1e-12)


@pytest.mark.parametrize("n", [3, 10])
@pytest.mark.parametrize("fit", [whitened, standardised, centred])
def test_of_one_point_many_times_nothing_is_left_in_double_precision(fit: Callable[[ArrayLike], Map], n: int) -> None:
    cloud = np.full((n, 4), 0.1)  # its mean is rounded
    assert (fit(cloud)(cloud) == 0).all()
    if fit is not centred:
        assert (fit(cloud)(cloud + 1) == 0).all(), "no direction has variance"


def test_whitening_needs_no_memory_by_pairs_of_points() -> None:
    cloud = np.random.default_rng(0).standard_normal((4000, 8))
    tracemalloc.start()
    whitened(cloud)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20 * cloud.nbytes < 8 * len(cloud) ** 2


def test_all_but_the_top_leaves_nothing_along_the_top_and_without_a_top_it_is_centring() -> None:
    left = all_but_the_top(TRAIN, 2)(TEST)
    directions = np.linalg.svd(TRAIN - TRAIN.mean(0))[2]
    np.testing.assert_allclose(left @ directions[:2].T, 0, atol=1e-12)
    np.testing.assert_allclose(left @ directions[2:].T, (TEST - TRAIN.mean(0)) @ directions[2:].T, atol=1e-12)
    assert anisotropy(left, 1)[0] < anisotropy(TEST, 1)[0]
    np.testing.assert_array_equal(all_but_the_top(TRAIN, 0)(TEST), TEST - TRAIN.mean(0))
    np.testing.assert_array_equal(centred(TRAIN)(TEST), TEST - TRAIN.mean(0))
    np.testing.assert_array_equal(all_but_the_top(TRAIN)(TEST), all_but_the_top(TRAIN, 1)(TEST))
    np.testing.assert_array_equal(none(TRAIN)(TEST), TEST)


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("n", [80, 5])
def test_a_rotation_of_all_points_changes_no_cosine_unless_the_transform_depends_on_the_axes(name: str, n: int) -> None:
    plain = cosines(FITS[name](TRAIN[:n])(TEST))
    turned = cosines(FITS[name](TRAIN[:n] @ TURN)(TEST @ TURN))
    assert np.allclose(plain, turned, atol=1e-9) == (name != "standardised")


def test_scikit_learn_gives_the_same() -> None:
    peer = PCA(whiten=True).fit(TRAIN)
    np.testing.assert_allclose(np.abs(whitened(TRAIN)(TEST)), np.abs(peer.transform(TEST)), rtol=1e-9)
    np.testing.assert_allclose(np.abs(whitened(TRAIN, 3)(TEST)), np.abs(peer.transform(TEST))[:, :3], rtol=1e-9)
    scaled = StandardScaler().fit(TRAIN).transform(TEST) * np.sqrt(79 / 80)  # its deviation divides by n
    np.testing.assert_allclose(standardised(TRAIN)(TEST), scaled, rtol=1e-12)
    assert not standardised(TRAIN * [1, 1, 1, 1, 1, 0])(TEST)[:, 5].any()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_an_unregularised_linear_probe_with_an_intercept_sees_no_transform_that_can_be_undone(name: str) -> None:
    wanted = TRAIN @ np.arange(6.0) + RANDOM.standard_normal(80)
    mapped = FITS[name](TRAIN)

    def predicted(train: Floats, test: Floats) -> Floats:
        design = np.column_stack([train, np.ones(len(train))])
        found: Floats = np.column_stack([test, np.ones(len(test))]) @ np.linalg.lstsq(design, wanted, rcond=None)[0]
        return found

    same = np.allclose(predicted(TRAIN, TEST), predicted(mapped(TRAIN), mapped(TEST)), atol=1e-8)
    assert same == (name != "all_but_the_top"), "a removed direction is lost"
