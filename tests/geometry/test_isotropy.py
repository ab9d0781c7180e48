"""Isotropy against closed forms, the edge of the Marchenko–Pastur law, and published formulas and values.

Post-hoc maps against their definition: top directions are removed, or variances are equal.
"""

import numpy as np
import pytest
from scipy.special import logsumexp

from isoscope.geometry.isotropy import (
    anisotropy,
    effective_rank,
    isoscore,
    isotropic_floor,
    participation_ratio,
    partition_isotropy,
    shares,
    unbiased_participation_ratio,
)
from isoscope.geometry.moments import Floats, covariance_traces, spectrum


def star(variances: list[float]) -> Floats:
    """Points ±x_i along each axis whose covariance has exactly these variances, up to a common factor."""
    axes = np.diag(np.sqrt(variances))
    return np.concatenate([axes, -axes])


def test_shares_of_a_known_spectrum() -> None:
    np.testing.assert_allclose(shares(np.array([6.0, 3.0, 1.0]), 2), [0.6, 0.3])
    np.testing.assert_allclose(shares(np.array([6.0, 4.0]), 3), [0.6, 0.4, np.nan])
    assert np.isnan(shares(np.zeros(4))).all()


def test_equal_rows_are_all_along_one_direction_and_any_cloud_above_its_bound(random: np.random.Generator) -> None:
    assert anisotropy(np.ones((5, 8)) * 0.1, 2) == pytest.approx([1.0, 0.0])
    for shape in ((5, 40), (40, 5), (9, 9)):
        assert 1 / min(shape) < anisotropy(random.normal(size=shape), 1)[0] < 1
    assert anisotropy(np.eye(6))[0] == pytest.approx(1 / 6)


@pytest.mark.parametrize("n, d, edge", [(64, 768, 0.0259), (768, 64, 0.0259), (256, 768, 0.0097)])
def test_isotropic_noise_stands_at_the_edge_of_the_marchenko_pastur_law(
    n: int, d: int, edge: float, random: np.random.Generator
) -> None:
    """Tracy and Widom: below the edge by 1.2065 (√n + √d)(1/√n + 1/√d)^⅓ / nd in the mean; single draws by up to 0."""
    found = [anisotropy(random.standard_normal((n, d)), 1)[0] for _ in range(40)]
    assert isotropic_floor(n, d) == pytest.approx(edge, abs=5e-5)
    below = 1.2065 * (np.sqrt(n) + np.sqrt(d)) * (1 / np.sqrt(n) + 1 / np.sqrt(d)) ** (1 / 3) / (n * d)
    assert np.mean(found) == pytest.approx(isotropic_floor(n, d) - below, rel=0.005)
    if 64 in (n, d):
        assert np.abs(np.array(found) - 0.0257).min() < 1e-4  # the figure noted for one draw is an ordinary one
    assert np.mean(found) > 1.5 / min(n, d)


@pytest.mark.parametrize("n, d", [(2, 2), (10, 10), (5, 768)])
def test_k_equal_variances_of_n(n: int, d: int) -> None:
    for k in range(1, n + 1):
        points = np.pad(star([1.0] * k), ((0, 0), (0, d - k)))
        ratio = participation_ratio(spectrum(points))
        assert ratio == pytest.approx(k)
        assert isoscore(ratio, d) == pytest.approx((k - 1) / (d - 1))
        assert effective_rank(spectrum(points)) == pytest.approx(k, rel=1e-4)


def test_isoscore_is_the_published_formula() -> None:
    """λ̂ = √n λ/‖λ‖, δ = ‖λ̂ − 1‖/√(2(n − √n)), ι = ((n − δ²(n − √n))² − n)/(n(n − 1))."""
    variances = np.random.default_rng(0).exponential(size=12)
    n = len(variances)
    normed = np.sqrt(n) * variances / np.linalg.norm(variances)
    delta = np.linalg.norm(normed - 1) / np.sqrt(2 * (n - np.sqrt(n)))
    published = ((n - delta**2 * (n - np.sqrt(n))) ** 2 - n) / (n * (n - 1))
    assert isoscore(participation_ratio(spectrum(star(list(variances)))), n) == pytest.approx(published, rel=1e-12)
    assert np.isnan(isoscore(1.0, 1))


@pytest.mark.parametrize(
    "n, draws, plug_in", [(64, 12, 0.075), (256, 4, 0.25), (872, 2, 0.53), pytest.param(5000, 1, 0.87, id="5000")]
)
def test_few_points_bias_the_plug_in_ratio_and_not_the_unbiased_one(n: int, draws: int, plug_in: float) -> None:
    """Isotropic, d = 768: the plug-in is near (n − 1)/(n − 1 + d), the unbiased 1 whatever n."""
    random, d = np.random.default_rng(n), 768
    clouds = [random.standard_normal((n, d)) for _ in range(draws)]
    found = np.mean([participation_ratio(spectrum(cloud)) for cloud in clouds]) / d
    assert found == pytest.approx((n - 1) / (n - 1 + d), rel=0.005)
    assert found == pytest.approx(plug_in, abs=0.005)
    assert np.mean([unbiased_participation_ratio(cloud) for cloud in clouds]) / d == pytest.approx(1.0, abs=0.02)


def test_of_unequal_variances_both_traces_are_right_and_the_ratio_a_little_large(random: np.random.Generator) -> None:
    variances = np.array([16.0, 4.0, *[1.0] * 30])
    truth = variances.sum() ** 2 / (variances**2).sum()
    clouds = [random.standard_normal((40, 32)) * np.sqrt(variances) for _ in range(200)]
    first, second = np.mean([covariance_traces(cloud) for cloud in clouds], 0)
    assert first**2 / second == pytest.approx(truth, rel=0.04)
    assert 1.05 * truth < np.mean([unbiased_participation_ratio(cloud) for cloud in clouds]) < 1.15 * truth
    assert np.mean([participation_ratio(spectrum(cloud)) for cloud in clouds]) == pytest.approx(6 / 7 * truth, rel=0.03)


def test_a_line_is_one_direction_and_a_point_none() -> None:
    line = np.outer(np.arange(5.0), [0.3, 0.4, 0.5])
    assert participation_ratio(spectrum(line)) == pytest.approx(1.0)
    assert effective_rank(spectrum(line)) == pytest.approx(1.0, abs=1e-5)
    assert isoscore(participation_ratio(spectrum(line)), 3) == pytest.approx(0.0, abs=1e-12)
    point = np.full((5, 3), 0.1)
    for measure in (participation_ratio, effective_rank):
        assert np.isnan(measure(spectrum(point)))
        assert np.isnan(measure(spectrum(point[:1])))
    assert np.isnan(unbiased_participation_ratio(point))


def test_effective_rank_of_two_singular_values() -> None:
    """It is of the singular values, not of their squares: 3 to 1 gives the entropy of (¾, ¼)."""
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert effective_rank(np.array([9.0, 1.0])) == pytest.approx(np.exp(entropy))
    assert effective_rank(np.array([9.0, 1.0, 0.0])) == pytest.approx(np.exp(entropy))


def test_partition_isotropy_of_shifted_unit_vectors_with_both_signs() -> None:
    """Around 0 near 1 (.990 of 20,000 vectors); shifted by s it falls to e^(−2‖s‖), 3.2e-6, and not to e^(−‖s‖)."""
    vectors = np.random.default_rng(0).standard_normal((20_000, 10))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert np.exp(partition_isotropy(vectors)) == pytest.approx(0.990, abs=0.004)
    assert partition_isotropy(vectors + 2.0) == pytest.approx(-2 * 2 * np.sqrt(10), abs=0.05)
    assert partition_isotropy(vectors + 2.0) == pytest.approx(np.log(3.2e-6), abs=0.05)


@pytest.mark.parametrize("shape", [(30, 4), (4, 4), (5, 12), (1, 3)], ids=str)
def test_partition_isotropy_is_over_all_eigenvectors(shape: tuple[int, int]) -> None:
    """Also those along which no point lies: there Z is the number of points."""
    points = np.random.default_rng(0).standard_normal(shape)
    _, vectors = np.linalg.eigh(points.T @ points)
    partition = logsumexp(points @ np.concatenate([vectors, -vectors], 1), axis=0)
    assert partition_isotropy(points) == pytest.approx(partition.min() - partition.max(), abs=1e-9)


def test_partition_isotropy_of_large_points_does_not_overflow() -> None:
    points = 1e4 * np.random.default_rng(0).standard_normal((50, 6))
    with np.errstate(over="ignore"):
        assert np.isinf(np.exp(points).sum())
    assert -1e6 < partition_isotropy(points) < -1e3


def test_points_along_every_axis_both_ways_are_isotropic() -> None:
    assert partition_isotropy(star([1.0] * 5)) == pytest.approx(0.0, abs=1e-9)
    longer, shorter = (np.log(2 * np.cosh(along) + 4) for along in (2.0, 1.0))
    assert partition_isotropy(star([4.0, 1.0, 1.0])) == pytest.approx(shorter - longer)
