"""Linear maps from one space to another, fitted on linked items, and how well they carry one to the other."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.linear_model import Ridge

from isoscope.base.errors import InputError
from isoscope.geometry.contextuality import units
from isoscope.geometry.moments import Floats, as_cloud, linked


class LinearMap(NamedTuple):
    """x ↦ xW + b: `weights` `[dx, dy]`, `shift` `[dy]`."""

    weights: Floats
    shift: Floats

    def of(self, points: ArrayLike) -> Floats:
        """Map points `[n, dx]`."""
        return as_cloud(points) @ self.weights + self.shift


def identity(width: int) -> LinearMap:
    """Return the map that changes nothing."""
    return LinearMap(np.eye(width), np.zeros(width))


def rotation(width: int, *, degrees: float, seed: int) -> LinearMap:
    """Return a rotation about the origin by one angle in each of ⌊width / 2⌋ random orthogonal planes.

    Each vector keeps its length and, in an even width, has the cosine cos(angle) with what it is mapped to.
    """
    basis, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((width, width)))
    angle, turned = np.deg2rad(degrees), np.eye(width)
    for one in range(0, width - 1, 2):
        turned[one : one + 2, one : one + 2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return LinearMap(basis @ turned @ basis.T, np.zeros(width))


def procrustes(x: ArrayLike, y: ArrayLike) -> LinearMap:
    """Return the best rotation, scaling and shift of points `[n, dx]` onto linked points `[n, dy]`, by least squares.

    With UΣVᵀ the singular value decomposition of XᵀY, both centred: W = (ΣΣ/‖X‖²) UVᵀ. Between spaces of unequal width
    UVᵀ has orthonormal rows or columns, and with dx > dy the scale is that of the part of X that it keeps. Source:
    Schönemann & Carroll 1970. Raises `InputError` for unequal n, and for points that are all one.
    """
    one, other = linked(x, y, least=2)
    means = one.mean(0), other.mean(0)
    left, sizes, right = np.linalg.svd((one - means[0]).T @ (other - means[1]), full_matrices=False)
    turned = left @ right
    kept = float((((one - means[0]) @ turned) ** 2).sum())
    if kept <= 0:
        raise InputError("alignment: all points are one")
    weights: Floats = float(sizes.sum()) / kept * turned
    return LinearMap(weights, means[1] - means[0] @ weights)


def ridge(x: ArrayLike, y: ArrayLike, *, strength: float) -> LinearMap:
    """Return the linear map that minimises ‖XW + b − Y‖² + strength · n · v · ‖W‖², v the mean variance of X's axes."""
    one, other = linked(x, y, least=2)
    model = Ridge(alpha=strength * len(one) * float(one.var(axis=0).mean()), solver="cholesky").fit(one, other)
    return LinearMap(np.asarray(model.coef_).T, np.asarray(model.intercept_))


def best_ridge(
    fitted: tuple[ArrayLike, ArrayLike], chosen: tuple[ArrayLike, ArrayLike], strengths: Sequence[float]
) -> tuple[float, LinearMap]:
    """Return the strength, and its map, whose mean squared error on other linked points, `chosen`, is least."""
    maps = {strength: ridge(*fitted, strength=strength) for strength in strengths}
    best = min(maps, key=lambda one: error(maps[one].of(chosen[0]), chosen[1]))
    return best, maps[best]


def error(found: ArrayLike, target: ArrayLike) -> float:
    """Return the mean squared error per item and dimension."""
    return float(((as_cloud(found) - as_cloud(target)) ** 2).mean())


def r2_by_dimension(found: ArrayLike, target: ArrayLike) -> Floats:
    """Return 1 − squared error / variance of each dimension of the target `[dy]`; NaN for a constant dimension."""
    one, other = linked(found, target, least=2)
    left, whole = ((one - other) ** 2).sum(0), ((other - other.mean(0)) ** 2).sum(0)
    return 1.0 - np.divide(left, whole, out=np.full_like(whole, np.nan), where=whole > 0)


class Retrieval(NamedTuple):
    """Share of items whose linked item is the nearest of all, from one space to the other and back."""

    forward: float
    back: float


def retrieval(x: ArrayLike, y: ArrayLike, *, neighbours: int | None = 10) -> Retrieval:
    """Return how often the nearest point of the other space is the linked one, for points `[n, d]` of both.

    By CSLS, 2cos(x, y) − r(x) − r(y) with r the mean cosine with the `neighbours` nearest points of the other space; by
    the cosine if None. Each point has its own length divided out. Chance is 1/n. Of several equal points the first
    counts, so copies are no hits. Source: Conneau et al. 2018.
    """
    one, other = (units(points) for points in linked(x, y, least=2))
    cosines = one @ other.T
    scores = cosines
    if neighbours is not None:
        count = min(neighbours, len(one))
        near = [np.partition(table, -count, axis=1)[:, -count:].mean(1) for table in (cosines, cosines.T)]
        scores = 2 * cosines - near[0][:, None] - near[1][None]
    own = np.arange(len(one))
    return Retrieval(*(float((table.argmax(1) == own).mean()) for table in (scores, scores.T)))
