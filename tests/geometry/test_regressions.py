"""Fits equal scikit-learn's, reach their minimum from any start, and are independent of each other."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from isoscope.geometry import regressions
from isoscope.geometry.regressions import chances, logistic_regressions
from refused import refused


def points(n: int, d: int, seed: int = 0) -> Any:
    """Correlated Gaussian points in their principal axes, with a 1 at the end; the sum of squares along each axis."""
    random = np.random.default_rng(seed)
    cloud = random.standard_normal((n, d)) @ random.standard_normal((d, d)) * np.exp(random.standard_normal(d))
    left, values, _ = np.linalg.svd(cloud - cloud.mean(0), full_matrices=False)
    return np.column_stack([left * values, np.ones(n)]), np.append(values**2, n)


def classes(design: Any, k: int, seed: int = 1) -> Any:
    """k classes of equal size along a direction, blurred by noise."""
    random = np.random.default_rng(seed)
    scaled = design[:, :-1] / design[:, :-1].std(0)
    along = scaled @ random.standard_normal(scaled.shape[1])
    return np.argsort(np.argsort(along + 0.5 * along.std() * random.standard_normal(len(design)))) * k // len(design)


def slope(design: Any, fits: Any, labels: Any, strength: Any) -> Any:
    """Gradient of C · Σ −ln p + ‖weights‖²/2, over C, by class, of weights that are given for all classes."""
    found = chances(design, fits) - (labels[:, None] == np.arange(chances(design, fits).shape[1])[:, None])
    used = found[:, -fits.coefficients.shape[1] :] @ design
    used[..., :-1] += fits.coefficients[..., :-1] / strength[:, None, None]
    return used


@pytest.mark.parametrize("n, d, k", [(200, 20, 2), (200, 20, 3), (60, 90, 2), (60, 90, 3)])
@pytest.mark.parametrize("share", [2 / 3, 1.0])
def test_fits_are_scikit_learns(n: int, d: int, k: int, share: float) -> None:
    """Fits on a subset of the points, in the axes of all points, as in an inner fold."""
    design, energy = points(n, d)
    labels, known = classes(design, k), np.arange(n) % 3 < 3 * share
    strength = np.array([1e-4, 1e-2, 1.0, 100.0])
    copies = np.repeat(labels[None, known], len(strength), 0)
    fits = logistic_regressions(design[known], energy, copies, k, strength, tolerance=1e-14)
    for c, found in zip(strength, chances(design, fits), strict=True):
        peer = LogisticRegression(C=c, tol=1e-10, solver="newton-cholesky").fit(design[known, :-1], labels[known])
        np.testing.assert_allclose(found.T, peer.predict_proba(design[:, :-1]), atol=1e-5)


@pytest.mark.parametrize("k", [2, 5])
def test_a_fit_is_a_minimum_wherever_it_began_and_whatever_the_penalty(k: int) -> None:
    design, energy = points(150, 30)
    labels = np.repeat(classes(design, k)[None], 5, 0)
    strength = np.array([1e-6, 1e-3, 1.0, 10.0, 1e3])  # the last one tells these points apart all but entirely
    fits = logistic_regressions(design, energy, labels, k, strength, tolerance=1e-12)
    size = np.sqrt(energy)  # of a gradient whose every point is wrong
    assert np.abs(slope(design, fits, labels, strength) / size).max() < 1e-6
    shifted = fits._replace(coefficients=fits.coefficients + np.random.default_rng(0).standard_normal(design.shape[1]))
    again = logistic_regressions(design, energy, labels, k, strength, tolerance=1e-12, start=shifted)
    np.testing.assert_allclose(chances(design, again), chances(design, fits), atol=1e-6)
    # The control: a fit that ends early is none.
    early = logistic_regressions(design, energy, labels, k, strength, tolerance=1e-1)
    assert np.abs(slope(design, early, labels, strength) / size).max() > 1e-4


@pytest.mark.parametrize("tolerance", [1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize("n, d", [(300, 40), (60, 90)])
def test_a_fit_misses_its_minimum_by_no_more_than_it_may(n: int, d: int, tolerance: float) -> None:
    """Also where the classes lie apart, and a weak penalty leaves all but no slope."""
    design, energy = points(n, d)
    labels = np.repeat(classes(design, 4)[None], 6, 0)
    strength = np.logspace(-4, 1, 6)

    def loss(tolerance: float) -> Any:
        fits = logistic_regressions(design, energy, labels, 4, strength, tolerance=tolerance)
        own = np.take_along_axis(chances(design, fits), labels[:, None], 1)[:, 0]
        return -np.log(own).sum(1) + (fits.coefficients[..., :-1] ** 2).sum((1, 2)) / strength / 2

    least = loss(1e-16)
    missed = (loss(tolerance) - least) / n
    assert (missed > -1e-12).all()
    assert (missed < tolerance).all()


@pytest.mark.parametrize("n, d", [(300, 40), (60, 90)])
def test_steps_in_single_precision_reach_the_minimum_with_a_penalty_that_is_almost_none(n: int, d: int) -> None:
    """The same change of the weights of all classes has no curvature but the penalty's, far below single precision."""
    design, energy = points(n, d)
    labels, strength = classes(design, 3)[None], np.array([1e3])
    loss = {}
    for tolerance in (1e-5, 1e-13):
        fits = logistic_regressions(design, energy, labels, 3, strength, tolerance=tolerance)
        own = np.take_along_axis(chances(design, fits), labels[:, None], 1)
        loss[tolerance] = (-np.log(own).sum() + (fits.coefficients[..., :-1] ** 2).sum() / strength / 2) / n
    assert 0 <= loss[1e-5] - loss[1e-13] < 2e-5


def test_fits_do_not_touch_each_other() -> None:
    design, energy = points(160, 20)
    labels = np.stack([classes(design, 3, seed) for seed in range(1, 5)])
    strength = np.array([1e-4, 1.0, 1e-2, 10.0])
    together = chances(design, logistic_regressions(design, energy, labels, 3, strength, tolerance=1e-14))
    for at in range(4):
        only = slice(at, at + 1)
        alone = logistic_regressions(design, energy, labels[only], 3, strength[only], tolerance=1e-14)
        np.testing.assert_allclose(together[only], chances(design, alone), atol=1e-8)


def test_a_class_without_points_has_no_chance_and_moves_nothing() -> None:
    design, energy = points(90, 10)
    labels = classes(design, 3)[None]
    with_gap = logistic_regressions(design, energy, np.where(labels == 2, 3, labels), 4, np.ones(1), tolerance=1e-12)
    without = logistic_regressions(design, energy, labels, 3, np.ones(1), tolerance=1e-12)
    found = chances(design, with_gap)
    assert (found[:, 2] == 0).all()
    np.testing.assert_allclose(found[:, [0, 1, 3]], chances(design, without), atol=1e-8)


@pytest.mark.parametrize("strength, steps", [(1e5, 2), (float("nan"), 100)])
def test_a_fit_that_finds_no_minimum_is_refused(monkeypatch: pytest.MonkeyPatch, strength: float, steps: int) -> None:
    design, energy = points(60, 90)
    monkeypatch.setattr(regressions, "STEPS", steps)
    with refused(r"C = (100000|nan) does not converge; use a smaller C"):
        logistic_regressions(design, energy, classes(design, 3)[None], 3, np.array([strength]), tolerance=1e-12)
