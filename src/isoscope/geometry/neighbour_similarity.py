"""Similarity of two spaces from the distances between their items: RSA, and overlap of nearest neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist, squareform
from scipy.stats import rankdata

from isoscope.base.errors import InputError
from isoscope.geometry.contextuality import units
from isoscope.geometry.moments import Floats, Ints, as_cloud, indices, linked
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

    @property
    def invariances(self) -> tuple[Invariances, Invariances]:
        """Transformations that change nothing, of the first space and of the second."""
        by_distance: dict[str, Invariances] = {
            "cosine": ("scaling", "orthogonal"),
            "euclidean": ISOMETRY,
            "correlation": ("scaling",),
        }
        return by_distance[self.distance], by_distance[self.distance]

    def distances(self, points: ArrayLike) -> Floats:
        """Return the distances between all pairs of points, `[n(n − 1)/2]`, or their ranks; centred, of length 1."""
        found: Floats = pdist(as_cloud(points, least=3), self.distance)
        return standardised(rankdata(found) if self.ranks else found)

    def score(self, x: ArrayLike, y: ArrayLike) -> float:
        """Return the similarity in [−1, 1] of two spaces, `[n, dx]` and `[n, dy]`; NaN if all distances are equal."""
        one, other = map(self.distances, linked(x, y))
        return float(one @ other)

    def left_of(self, distances: Floats, controls: Sequence[Floats]) -> Floats:
        """Return what is left of `distances`, regressed on others (or ranks on ranks); centred, of length 1.

        `controls`: distances `[n(n − 1)/2]` between the items, such as 0 for equal words and 1 for others.
        """
        ranked = [rankdata(one) if self.ranks else np.asarray(one, float) for one in controls]
        varied = [one - one.mean() for one in ranked if np.ptp(one) > 0]
        if not varied:
            return standardised(distances)
        basis = np.linalg.qr(np.column_stack(varied))[0]
        return standardised(distances - basis @ (basis.T @ distances))


def standardised(values: Floats) -> Floats:
    """Return values with mean 0 and length 1; NaN if all are equal."""
    centred = values - values.mean()
    length = np.linalg.norm(centred)
    return centred / (length if length > 0 else np.nan)


@dataclass(kw_only=True, eq=False)
class Neighbours:
    """Mutual nearest neighbours: the mean share of an item's k nearest by cosine that two spaces have in common.

    Chance is near k over the number of candidates. Source: Huh et al. 2024, with cosines.
    """

    name: ClassVar[str] = "neighbours"
    invariances: ClassVar[tuple[Invariances, Invariances]] = (("scaling", "orthogonal"), ("scaling", "orthogonal"))
    k: int = 10

    def score(self, x: ArrayLike, y: ArrayLike) -> float:
        """Return the similarity in [0, 1] of two spaces, `[n, dx]` and `[n, dy]`; all other items are candidates."""
        one, other = linked(x, y)
        return float(overlaps(self.nearest(one), self.nearest(other, seed=1)).mean())

    def nearest(self, points: ArrayLike, groups: ArrayLike | None = None, *, seed: int = 0) -> Ints:
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
            cosines = (unit[rows] @ unit[order].T).round(12)
            cosines[of[rows][:, None] == of[order][None]] = -np.inf
            found.append(order[np.argpartition(-cosines, self.k - 1, axis=1)[:, : self.k]])
        return np.concatenate(found)


def overlaps(one: Ints, other: Ints) -> Floats:
    """Return the share of each item's neighbours `[n, k]` that are in both lists, `[n]`."""
    shared: Floats = (one[:, :, None] == other[:, None, :]).any(2).mean(1)
    return shared


def differ(labels: ArrayLike) -> Floats:
    """Return 0 for pairs of items of one label and 1 for others, `[n(n − 1)/2]`."""
    values = np.asarray(labels)
    return squareform((values[:, None] != values[None]).astype(float), checks=False)
