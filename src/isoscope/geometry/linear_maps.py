"""Linear maps from one space to another, fitted on linked items, and how well they carry one to the other.

A map from vectors to the vectors that they were made from decodes them (`decodability`).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.linear_model import Ridge

from isoscope.base.errors import InputError
from isoscope.geometry.array_kinds import on_host
from isoscope.geometry.contextuality import units
from isoscope.geometry.moments import Floats, Ints, as_cloud, centre, check_folds, indices, linked

RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Ridge penalties, relative to the mean squared singular value of the points."""


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
    UVᵀ has orthonormal rows or columns. With dx > dy it is the closest to XᵀY, not the best: another part of X may
    leave a smaller error; the scale is the best for the part that it keeps. Source: Schönemann & Carroll 1970. Raises
    `InputError` for unequal n, and for points that are all one.
    """
    one, other = linked(on_host(x), on_host(y), least=2)
    source, target = centre(one), centre(other)
    left, sizes, right = np.linalg.svd(source.T @ target, full_matrices=False)
    turned = left @ right
    kept = float(((source @ turned) ** 2).sum())
    if kept <= 0:
        raise InputError("alignment: all points are one")
    weights: Floats = float(sizes.sum()) / kept * turned
    return LinearMap(weights, other.mean(0) - one.mean(0) @ weights)


def ridge(x: ArrayLike, y: ArrayLike, *, strength: float) -> LinearMap:
    """Return the linear map that minimises ‖XW + b − Y‖² + strength · n · v · ‖W‖², v the mean variance of X's axes."""
    one, other = linked(on_host(x), on_host(y), least=2)
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
    one, other = linked(on_host(found), on_host(target), least=2)
    left, whole = ((one - other) ** 2).sum(0), (centre(other) ** 2).sum(0)
    return 1.0 - np.divide(left, whole, out=np.full_like(whole, np.nan), where=whole > 0)


class Retrieval(NamedTuple):
    """Share of items whose linked item is the nearest of all, from one space to the other and back."""

    forward: float
    back: float


def retrieval(x: ArrayLike, y: ArrayLike, *, neighbours: int | None = 10) -> Retrieval:
    """Return how often the nearest point of the other space is the linked one, for points `[n, d]` of both.

    By CSLS, 2cos(x, y) − r(x) − r(y) with r the mean cosine with the `neighbours` nearest points of the other space; by
    the cosine if None. Each point has its own length divided out. Chance is 1/n. Of several equal points the first
    counts, so copies are no hits. Source: Conneau et al. 2018. Raises `InputError` for other numbers of points or
    dimensions.
    """
    one, other = (units(points) for points in linked(on_host(x), on_host(y), least=2, one_width=True))
    cosines = one @ other.T
    scores = cosines
    if neighbours is not None:
        count = min(neighbours, len(one))
        near = [np.partition(table, -count, axis=1)[:, -count:].mean(1) for table in (cosines, cosines.T)]
        scores = 2 * cosines - near[0][:, None] - near[1][None]
    own = np.arange(len(one))
    return Retrieval(*(float((table.argmax(1) == own).mean()) for table in (scores, scores.T)))


class Decoded(NamedTuple):
    """Share of n held-out points whose own target is the nearest of all `candidates` to the prediction.

    `control`: the same for a map fitted on shuffled pairs.
    """

    rate: float
    control: float
    candidates: int
    n: int


def decodability(
    points: ArrayLike,
    targets: Mapping[str, ArrayLike],
    groups: ArrayLike,
    *,
    seed: int,
    folds: int = 5,
) -> dict[str, Decoded]:
    """Return how often a target `[n, e]` is recovered from points `[n, d]`, for each name in `targets`.

    Folds hold whole `groups` (sentences). A ridge map from points to targets is fitted on all folds but one. For the
    held-out points, the prediction's nearest target by cosine, among all different targets, is compared with the
    point's own target. The penalty minimises the leave-one-out error in training. One decomposition of the points
    serves all targets. Raises `InputError` for fewer than two folds, fewer groups than folds, and if all targets are
    equal.
    """
    cloud = as_cloud(points, least=2)
    group = indices(groups, len(cloud), "groups")
    check_folds(folds, int(group.max()) + 1)
    draw = np.random.default_rng(seed)
    fold = draw.permutation(group.max() + 1)[group] % folds
    known = {name: _distinct(name, values, len(cloud)) for name, values in targets.items()}
    hits = {name: np.zeros(2) for name in targets}
    for one in range(folds):
        train, test = cloud[fold != one], cloud[fold == one]
        mean = train.mean(0)
        left, values, right = np.linalg.svd(train - mean, full_matrices=False)
        held = (test - mean) @ right.T
        shuffled = draw.permutation(len(train))
        for name, (candidates, of) in known.items():
            wanted = candidates[of[fold != one]]
            for column, pairs in enumerate((wanted, wanted[shuffled])):
                near = units(candidates - wanted.mean(0)) @ units(held @ _map(left, values, pairs)).T
                hits[name][column] += (near.argmax(0) == of[fold == one]).sum()
    n = len(cloud)
    return {
        name: Decoded(float(hits[name][0]) / n, float(hits[name][1]) / n, len(candidates), n)
        for name, (candidates, _) in known.items()
    }


def _distinct(name: str, values: ArrayLike, n: int) -> tuple[Floats, Ints]:
    rows, of = np.unique(as_cloud(values), axis=0, return_inverse=True)
    if len(of.ravel()) != n or len(rows) < 2:
        raise InputError(f"{name}: {len(rows)} different targets of {of.size}; expected {n} targets, not all the same")
    # In axes of their own, few targets have few dimensions: the same distances and cosines, a fraction of the work.
    return np.asarray(np.linalg.qr(rows.T, mode="r")).T, of.ravel()


def _map(left: Floats, values: Floats, wanted: Floats) -> Floats:
    """Return the coefficients `[axes, e]` of centred targets in the principal axes of the training points."""
    rest = wanted - wanted.mean(0)
    along = left.T @ rest
    energy = values**2
    best, least = np.zeros_like(energy), np.inf
    for ridge in RIDGES:
        shrunk = energy / (energy + ridge * energy.mean())
        hat = ((left**2) @ shrunk + 1 / len(left))[:, None]
        error = float((((rest - left @ (shrunk[:, None] * along)) / (1 - hat)) ** 2).sum())
        if error < least:
            best, least = shrunk, error
    return np.asarray((best / np.where(values > 0, values, 1.0))[:, None] * along)
