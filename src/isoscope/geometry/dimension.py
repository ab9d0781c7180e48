"""Estimate the intrinsic dimension of a cloud from distances to near neighbours."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, vstack
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import pdist, squareform

from isoscope.base.errors import InputError
from isoscope.geometry.array_kinds import Array, distances, least_places, namespace, on_host
from isoscope.geometry.moments import ALIKE, Floats, as_points, centre

_ROWS = 1024  # rows of the distance matrix computed at once
REPEATED = 0.001
"""Points closer than this times the median distance of second neighbours are one place. Of random points on a curve
.2 % are so close, of those on a surface fewer; but a tenth of near-copies turns TwoNN from 5 to .2."""


class Estimate(NamedTuple):
    """A statistic and its confidence interval."""

    value: float
    low: float
    high: float


CLOSE = 0.1
"""Places closer than this (in the same unit) are counted: they stay, and pull ratios of distances down."""


class Places(NamedTuple):
    """Distances to the nearest other places, rising, `[n, k]`, and what the points say of their use."""

    near: Floats
    repeated: float
    """Share of the points that are left out, because each (nearly) repeats another."""
    close: float
    """Share of the places with another place far below the median distance (`CLOSE`): compare with that of noise."""


def places(points: ArrayLike, k: int) -> Places:
    """Return distances to the k nearest other places; points that (nearly) coincide (`REPEATED`) count as one place.

    If most points have two neighbours that differ from them by rounding alone (`ALIKE`, in units of the root mean
    squared distance from the mean), such points are one place first: else copies would be the unit of `REPEATED`.
    Raises `InputError` for k or fewer places.
    """
    given = as_points(points)
    cloud, near = given, _nearest(given, k)
    if not near[:, 0].all():
        cloud = given.unique(dim=0) if is_torch_array(given) else np.unique(given, axis=0)
        near = _nearest(cloud, k)
    rounding = ALIKE * float((centre(given) ** 2).sum(1).mean()) ** 0.5
    if _usual(near) < rounding:
        cloud = _merged(cloud, near[:, 0], rounding)
        near = _nearest(cloud, k)
    if (near[:, 0] < REPEATED * _usual(near)).any():
        cloud = _merged(cloud, near[:, 0], REPEATED * _usual(near))
        near = _nearest(cloud, k)
    close_by = float((near[:, 0] < CLOSE * _usual(near)).mean())
    return Places(near, 1 - len(cloud) / len(given), close_by)


def _usual(near: Floats) -> float:
    """Return the median distance of second neighbours, the unit of `REPEATED` and `CLOSE`."""
    return float(np.median(near[:, :2][:, -1]))


def _merged(cloud: Array, nearest: Floats, limit: float) -> Array:
    """Return one of all points that are connected by distances below `limit`; `nearest`: to each point's nearest."""
    close = np.flatnonzero(nearest < limit)
    pairs = vstack([csr_array(on_host(rows < limit)) for rows in _distances(cloud[close], cloud[close])])
    _, of = connected_components(pairs, directed=False)
    first = np.unique(of, return_index=True)[1]
    return cloud[np.delete(np.arange(len(cloud)), np.delete(close, first))]


def _nearest(cloud: Array, k: int) -> Floats:
    """Return distances to the k nearest other points, rising, `[n, k]`, on the host."""
    if len(cloud) <= k:
        raise InputError(f"points: {len(cloud)} distinct points, but {k} neighbours are requested")
    take, here = namespace(cloud).take_along_axis, not is_torch_array(cloud)
    every = [squareform(pdist(cloud))] if here and len(cloud) <= _ROWS else _distances(cloud, cloud)
    near = (take(rows, least_places(rows, k + 1), axis=1) for rows in every)
    return np.concatenate([np.sort(on_host(rows), axis=1)[:, 1:] for rows in near])


def _distances(some: Array, cloud: Array) -> Iterator[Array]:
    """Yield the distances from `some` points to all of a cloud, `_ROWS` of them at once.

    Differences (not the expansion of the square) stay precise in a narrow cone far from the origin.
    """
    return (distances(some[start : start + _ROWS], cloud) for start in range(0, len(some), _ROWS))


def two_nn(points: ArrayLike, *, discard: float = 0.1) -> float:
    """TwoNN: slope through 0 of −ln(1 − F(μ)) over ln μ, μ = second by first neighbour's distance, F(μ_(i)) = i/n.

    The largest `discard` of the ratios are left out, as in Facco et al. 2017 (Sci. Rep. 7:12140). Dimensions above
    about 10 are underestimated. Near-copies of points count once (see `places`). NaN if all ratios are 1. Raises
    `InputError` for fewer than 3 different points.
    """
    return two_nn_of(places(points, 2).near, discard=discard)


def two_nn_of(near: Floats, *, discard: float = 0.1) -> float:
    """Compute TwoNN from distances to the nearest places, rising; it uses the first two."""
    ratio = np.sort(near[:, 1] / near[:, 0])
    n = len(ratio)
    kept = min(max(1, int(n * (1.0 - discard))), n - 1)  # F = 1 at the last ratio
    x, y = np.log(ratio[:kept]), -np.log1p(-np.arange(1, kept + 1) / n)
    square = float(x @ x)
    return float(x @ y) / square if square > 0 else float("nan")


def mle(points: ArrayLike, *, k: int = 20) -> float:
    """Levina and Bickel's maximum likelihood dimension, `[1/(k−1) Σ_{j<k} ln(T_k/T_j)]⁻¹`, averaged over points.

    The inverses are averaged, as MacKay and Ghahramani propose. NaN if all distances are equal. Raises `InputError` for
    k or fewer different points, and for k = 1, which has no ratio.
    """
    if k < 2:
        raise InputError(f"k: {k}, but a ratio of distances needs 2 neighbours")
    return mle_of(places(points, k).near)


def mle_of(near: Floats) -> float:
    """Compute the maximum likelihood dimension from distances to the k nearest places, rising, `[n, k]`."""
    inverse = np.log(near[:, -1:] / near[:, :-1]).mean(1)
    mean = float(inverse.mean())
    return 1.0 / mean if mean > 0 else float("nan")
