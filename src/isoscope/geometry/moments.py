"""Second moments of a cloud: its spectrum, and unbiased estimates of covariance traces.

A NumPy array or a tensor stays what it is, and where it is, except for `as_cloud` and `distinct`.
"""

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import ArrayLike, NDArray

from isoscope.base.errors import InputError
from isoscope.geometry.array_kinds import Array, beside, namespace, on_host

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ALIKE = 1e-5
"""Points whose relative difference is smaller differ only by rounding."""


def as_cloud(points: ArrayLike, *, least: int = 1) -> Floats:
    """Return `points` as float64 `[n, d]` on the host; raises as `as_points`."""
    found: Floats = as_points(on_host(points), least=least)
    return found


def as_points(points: ArrayLike, *, least: int = 1) -> Array:
    """Return `points` as float64 `[n, d]`; a tensor stays on its device.

    Raises `InputError` if they are not a matrix, are fewer than `least`, have no dimensions, or contain NaN or
    infinity.
    """
    cloud: Array = points.double() if is_torch_array(points) else np.asarray(points, dtype=np.float64)
    if cloud.ndim != 2 or cloud.shape[1] == 0:
        raise InputError(f"points: expected [points, dimensions], got an array of shape {list(cloud.shape)}")
    if len(cloud) < least:
        raise InputError(f"points: {len(cloud)}, but this measure needs at least {least}")
    if not namespace(cloud).isfinite(cloud).all():
        raise InputError("points: contain NaN or infinity")
    return cloud


def linked(one: ArrayLike, other: ArrayLike, *, least: int = 1, one_width: bool = False) -> tuple[Array, Array]:
    """Return two clouds with common items, row i of both being the same item.

    Raises `InputError` as `as_points` does, for different numbers of points and, with `one_width`, of dimensions.
    """
    first, second = as_points(one, least=least), as_points(other, least=least)
    if len(first) != len(second):
        raise InputError(f"{len(first)} and {len(second)} points: expected one point per item in both spaces")
    if one_width and first.shape[1] != second.shape[1]:
        raise InputError(f"{first.shape[1]} and {second.shape[1]} dimensions: expected as many in both spaces")
    return first, second


def distinct(points: ArrayLike) -> int:
    """Count the different points: those further apart than `ALIKE` times their root mean squared length.

    Points are compared along a random direction, in O(nd + n log n).
    """
    cloud = as_cloud(points, least=1)
    order = np.argsort(cloud @ np.random.default_rng(0).standard_normal(cloud.shape[1]), kind="stable")
    steps = np.linalg.norm(np.diff(cloud[order], axis=0), axis=1)
    return 1 + int((steps > ALIKE * np.sqrt((cloud**2).sum(1).mean())).sum())


def indices(labels: ArrayLike | None, n: int, name: str = "labels") -> Ints:
    """Return the index of each point's label among the different `labels`, `[n]`, from 0; None: all are different.

    Raises `InputError` if there are not n labels.
    """
    if labels is None:
        return np.arange(n)
    found = np.unique(np.asarray(labels), return_inverse=True)[1].ravel()
    if len(found) != n:
        raise InputError(f"{name}: {len(found)} for {n} points")
    return found


def check_folds(folds: int, groups: int) -> None:
    """Raise `InputError` for fewer than two folds, and for more than there are groups to hold out."""
    if not 2 <= folds <= groups:
        raise InputError(f"folds: {folds} of {groups} groups; expected at least 2, and as many groups")


def rows_of_each(of: Ints) -> list[Ints]:
    """Return the rows of the points of each class, rising; `of`: see `indices`."""
    return np.split(np.argsort(of, kind="stable"), np.cumsum(np.bincount(of))[:-1])


def sums(points: Array, of: Ints) -> tuple[Array, Ints]:
    """Return the sum `[classes, d]` and the number `[classes]` of the points of each class; `of`: see `indices`."""
    if is_torch_array(points):  # a product, since a scatter adds in no fixed order
        return beside((of == np.arange(of.max() + 1)[:, None]).astype(float), points) @ points, np.bincount(of)
    found = np.zeros((of.max() + 1, points.shape[1]))
    np.add.at(found, of, points)
    return found, np.bincount(of)


def centre(points: ArrayLike) -> Array:
    """Subtract the mean from the cloud; exactly 0 for one point many times (a mean is rounded)."""
    cloud = as_points(points)
    cloud = cloud - cloud[0]
    return cloud - cloud.mean(0)


def spectrum(points: ArrayLike, *, centred: bool = True) -> Array:
    """Return the squared singular values σ² of the cloud, falling, `[min(n, d)]`; `centred`: after mean subtraction.

    Computed from the eigenvalues of the smaller of XᵀX and XXᵀ: O(nd · min(n, d)).
    """
    cloud = centre(points) if centred else as_points(points)
    gram = cloud.T @ cloud if cloud.shape[0] >= cloud.shape[1] else cloud @ cloud.T
    xp = namespace(gram)
    return xp.flip(xp.linalg.eigvalsh(gram)).clip(0.0)


def as_spectrum(spectrum: ArrayLike) -> Floats:
    """Return squared singular values as float64 on the host.

    Raises `InputError` for a cloud, of which `spectrum` gives them.
    """
    values = np.asarray(on_host(spectrum), dtype=np.float64)
    if values.ndim != 1:
        shape = list(values.shape)
        raise InputError(
            f"spectrum: expected one dimension, got an array of shape {shape}; of a cloud: spectrum(points)"
        )
    return values


def within_classes(points: ArrayLike, labels: ArrayLike) -> Array:
    """Subtract each class's mean from its points `[n, d]`; exactly 0 for one point many times."""
    cloud = as_points(points)
    of = indices(labels, len(cloud))
    cloud = cloud - cloud[np.unique(of, return_index=True)[1]][of]
    total, counts = sums(cloud, of)
    return cloud - (total / beside(counts[:, None], cloud))[of]


def between_share(points: ArrayLike, labels: ArrayLike) -> float:
    """Return the share of variance between class means: tr S_B / tr S_T (η² of the trace), in [0, 1].

    NaN for one point many times.
    """
    within, total = within_classes(points, labels), float((centre(points) ** 2).sum())
    return 1.0 - float((within**2).sum()) / total if total > 0 else float("nan")


def covariance_traces(points: ArrayLike) -> tuple[float, float]:
    """Return unbiased estimates of tr Σ and tr Σ² of a distribution with four moments that the points are drawn from.

    tr Σ² is the U-statistic over quadruples of different points, computed from the Gram matrix K of the centred cloud
    with its diagonal set to 0: `(tr K̃² + (1ᵀK̃1)²/((n−1)(n−2)) − 2/(n−2)·1ᵀK̃²1) / (n(n−3))`. O(n²d). Raises
    `InputError` for fewer than 4 points. Source: Song et al. 2012 (JMLR 13), with both kernels linear.
    """
    cloud = centre(as_points(points, least=4))
    n = len(cloud)
    gram = cloud @ cloud.T
    first = float(gram.trace()) / (n - 1)
    gram[np.arange(n), np.arange(n)] = 0.0
    rows = gram.sum(0)
    total = float(rows.sum())
    second = float((gram**2).sum()) + total**2 / ((n - 1) * (n - 2)) - 2.0 / (n - 2) * float(rows @ rows)
    return first, second / (n * (n - 3))
