"""Similarity of two spaces from the distances between their items: RSA, and overlap of nearest neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge
from numpy.typing import ArrayLike
from scipy.spatial.distance import squareform

from isoscope.base.entry import check_fields
from isoscope.base.errors import InputError
from isoscope.geometry.array_kinds import Array, beside, least_places, namespace, pairwise, upper_triangle
from isoscope.geometry.contextuality import units
from isoscope.geometry.moments import Floats, as_points, indices, linked
from isoscope.geometry.similarity import ISOMETRY, Invariances

Distance = Literal["cosine", "euclidean", "correlation"]


@dataclass(kw_only=True, eq=False)
class RSA:
    """Representational similarity analysis: the correlation of the distances between all pairs of items in two spaces.

    `distance`: cosine, euclidean or correlation; `ranks`: Spearman's correlation, else Pearson's. O(n²d). Source:
    Kriegeskorte et al. 2008.
    """

    name: ClassVar[str] = "rsa"
    distance: Distance = "cosine"
    ranks: bool = True

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def invariances(self) -> tuple[Invariances, Invariances]:
        """Transformations that change nothing, of the first space and of the second."""
        by_distance: dict[str, Invariances] = {
            "cosine": ("scaling", "orthogonal"),
            "euclidean": ISOMETRY,
            "correlation": ("scaling",),
        }
        return by_distance[self.distance], by_distance[self.distance]

    def distances(self, points: ArrayLike) -> Array:
        """Return the distances between all pairs of points, `[n(n − 1)/2]`, or their ranks; centred, of length 1.

        Distances that differ by rounding are equal: a rotation must not part equal distances.
        """
        found = pairwise(as_points(points, least=3), self.distance)
        xp, largest = namespace(found), found.max()
        found = xp.round(found / xp.where(largest > 0, largest, 1.0) * 1e12)
        return standardised(ranks(found) if self.ranks else found)

    def score(self, x: ArrayLike, y: ArrayLike) -> float:
        """Return the similarity in [−1, 1] of two spaces, `[n, dx]` and `[n, dy]`; NaN if all distances are equal."""
        one, other = map(self.distances, linked(x, y))
        return float(one @ other)

    def left_of(self, distances: Array, controls: Sequence[Floats]) -> Array:
        """Return what is left of `distances`, regressed on others (or ranks on ranks); centred, of length 1.

        `controls`: distances `[n(n − 1)/2]` between the items, such as 0 for equal words and 1 for others.
        """
        xp = namespace(distances)
        ranked = [ranks(beside(one, distances)) if self.ranks else beside(one, distances) for one in controls]
        varied = [one - one.mean() for one in ranked if one.max() > one.min()]
        if not varied:
            return standardised(distances)
        basis = xp.linalg.qr(xp.stack(varied, axis=1))[0]
        return standardised(distances - basis @ (basis.T @ distances))


def ranks(values: Array) -> Array:
    """Return the rank of each value `[m]` from 1, the mean rank of equal values; NaN for all if a value is NaN."""
    xp, found = namespace(values), values + 0.0
    order = xp.argsort(values)
    rising = values[order]
    twice = xp.searchsorted(rising, rising) + xp.searchsorted(rising, rising, side="right") + 1
    found[order] = xp.astype(twice, values.dtype) / 2
    return found + 0 * values.sum()


def square(pairs: Array, n: int) -> Array:
    """Return the matrix `[n, n]` of values of pairs `[n(n − 1)/2]`, 0 on the diagonal."""
    xp = namespace(pairs)
    found = xp.zeros((n, n), dtype=pairs.dtype, device=pairs.device)
    found[upper_triangle(found)] = pairs
    return found + found.T


def standardised(values: Array) -> Array:
    """Return values with mean 0 and length 1; NaN if all are equal."""
    xp, centred = namespace(values), values - values.mean()
    length = xp.sqrt(centred @ centred)
    return centred / xp.where(length > 0, length, xp.nan)


@dataclass(kw_only=True, eq=False)
class Neighbours:
    """Mutual nearest neighbours: the mean share of an item's k nearest by cosine that two spaces have in common.

    Chance is near k over the number of candidates. Source: Huh et al. 2024, with cosines.
    """

    name: ClassVar[str] = "neighbours"
    invariances: ClassVar[tuple[Invariances, Invariances]] = (("scaling", "orthogonal"), ("scaling", "orthogonal"))
    k: Annotated[int, Ge(1)] = 10

    def __post_init__(self) -> None:
        check_fields(self)

    def score(self, x: ArrayLike, y: ArrayLike) -> float:
        """Return the similarity in [0, 1] of two spaces, `[n, dx]` and `[n, dy]`; all other items are candidates."""
        one, other = linked(x, y)
        return float(overlaps(self.nearest(one), self.nearest(other, seed=1)).mean())

    def nearest(self, points: ArrayLike, groups: ArrayLike | None = None, *, seed: int = 0) -> Array:
        """Return the k nearest items of each, `[n, k]`, of other `groups`. Raises `InputError` for fewer candidates.

        Of equally near items, `seed` draws which count. Two spaces need different seeds: with one, equal points in both
        would have the same neighbours.
        """
        unit = units(points)
        of = indices(groups, len(unit), "groups")
        if len(of) - np.bincount(of).max() < self.k:
            raise InputError(f"some items have fewer than {self.k} candidates; give more items or fewer neighbours")
        found, order = [], np.random.default_rng(seed).permutation(len(unit))
        for rows in np.array_split(np.arange(len(unit)), -(-len(unit) // 1000)):
            cosines = namespace(unit).round((unit[rows] @ unit[order].T) * 1e12)
            cosines[beside(of[rows][:, None] == of[order][None], unit)] = -np.inf
            found.append(beside(order, unit)[least_places(-cosines, self.k)])
        return namespace(unit).concat(found)


def overlaps(one: Array, other: Array) -> Array:
    """Return the share of each item's neighbours `[n, k]` that are in both lists, `[n]`."""
    xp = namespace(one)
    return xp.astype((one[:, :, None] == other[:, None, :]).any(2), xp.float64).mean(1)


def differ(labels: ArrayLike) -> Floats:
    """Return 0 for pairs of items of one label and 1 for others, `[n(n − 1)/2]`."""
    values = np.asarray(labels)
    return squareform((values[:, None] != values[None]).astype(float), checks=False)
