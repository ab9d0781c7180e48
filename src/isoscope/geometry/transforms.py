"""Transform a cloud after training: each function is fitted on some points and returns a map of others.

A map takes points `[m, d]` and returns float64 `[m, d]`. Fit it on sentences that are not measured, since it adapts to
the points that it is fitted on. Each function raises `InputError` for fewer than two points, its map for another width.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from isoscope.base.errors import InputError
from isoscope.geometry.moments import Floats, as_cloud

Map = Callable[[ArrayLike], Floats]
RIDGE = 0.1
"""Ridge of whitening, as a share of the mean variance, where there are no more points than dimensions."""
FLAT = 1e-12
"""Share of the largest variance up to which a direction has none."""


def none(points: ArrayLike) -> Map:
    """Return the map that leaves points as they are."""
    return _affine(as_cloud(points, least=2), lambda cloud: cloud)


def centred(points: ArrayLike) -> Map:
    """Return the map that subtracts the mean: x − μ."""
    return all_but_the_top(points, 0)


def all_but_the_top(points: ArrayLike, k: int | None = None) -> Map:
    """Return the map that subtracts the mean and the first k principal directions: x − μ − Σ u uᵀ(x − μ).

    `k`: default: d / 100 rounded down, at least 1; 0 is centring. Raises `InputError` for more directions than exist.
    Source: Mu and Viswanath 2018 (arXiv:1702.01417), who remove about d / 100 directions.
    """
    cloud = as_cloud(points, least=2)
    mean, _, directions = _principal(cloud, max(1, cloud.shape[1] // 100) if k is None else k, least=0)
    return _affine(cloud, lambda other: (other - mean) - (other - mean) @ directions.T @ directions)


def whitened(points: ArrayLike, components: int | None = None, ridge: float | None = None) -> Map:
    """Return the map to principal axes of variance 1: (x − μ) U (Λ + ε)^{−1/2}.

    - `components`: how many axes, the largest first; default: all. Without a ridge, a direction without variance
      becomes 0.
    - `ridge`: ε as a share of the mean variance; default: 0 if there are more points than dimensions, so the covariance
      of the fitted points becomes the identity; else `RIDGE`, because most directions then have no variance.

    Raises `InputError` for more components than directions with variance. Source: Su et al. 2021 (arXiv:2103.15316).
    """
    cloud = as_cloud(points, least=2)
    n, d = cloud.shape
    mean, found, directions = _principal(cloud, components, least=1)
    variances = np.pad(found, (0, d - len(found)))[: len(directions)]
    varying = variances > FLAT * found[0]
    if components is not None and components > varying.sum():
        raise InputError(f"components: {components}, but only {varying.sum()} directions have variance")
    share = (0.0 if n > d else RIDGE) if ridge is None else ridge
    sd = np.sqrt(variances + share * found.sum() / d)
    kept = (varying | (share > 0)) & (sd > 0)

    def axes(other: Floats) -> Floats:
        along = (other - mean) @ directions.T
        return np.divide(along, sd, out=np.zeros_like(along), where=kept)

    return _affine(cloud, axes)


def standardised(points: ArrayLike) -> Map:
    """Return the map to mean 0 and standard deviation 1 in each dimension; a dimension without variance becomes 0.

    It removes outlying dimensions, and depends on the axes. Source: Timkey and van Schijndel 2021 (arXiv:2109.04404).
    """
    cloud = as_cloud(points, least=2)
    mean = _mean(cloud)
    sd = np.where((cloud == mean).all(0), 0.0, cloud.std(0, ddof=1))
    varying = sd**2 > FLAT * (sd**2).max()
    scale = np.where(varying, 1 / np.where(varying, sd, 1.0), 0.0)
    return _affine(cloud, lambda other: (other - mean) * scale)


def _affine(fitted: Floats, function: Callable[[Floats], Floats]) -> Map:
    """Return `function` for points as wide as the fitted points."""

    def mapped(points: ArrayLike) -> Floats:
        cloud = as_cloud(points)
        if cloud.shape[1] != fitted.shape[1]:
            raise InputError(f"points: {cloud.shape[1]} dimensions, but fitted on {fitted.shape[1]}")
        return function(cloud)

    return mapped


def _principal(cloud: Floats, components: int | None, *, least: int) -> tuple[Floats, Floats, Floats]:
    """Return the mean, the variances, and the first principal directions `[components, d]`; None: all d."""
    most = min(len(cloud) - 1, cloud.shape[1])
    if components is not None and not least <= components <= most:
        raise InputError(f"components: {components}; expected {least} to {most}")
    all_of_few = components is None and len(cloud) < cloud.shape[1]  # of more points it would be a matrix [n, n]
    mean = _mean(cloud)
    _, values, directions = np.linalg.svd(cloud - mean, full_matrices=all_of_few)
    return mean, values**2 / (len(cloud) - 1), directions[:components]


def _mean(cloud: Floats) -> Floats:
    """Return the mean; of a dimension with one value exactly this value (a mean is rounded)."""
    return np.where((cloud == cloud[0]).all(0), cloud[0], cloud.mean(0))
