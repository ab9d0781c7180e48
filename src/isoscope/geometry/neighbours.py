"""Measure who a point's neighbours are: the evidence behind a map that shows clusters."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isoscope.errors import InputError
from isoscope.geometry.contextuality import units
from isoscope.geometry.moments import Floats, Ints


class NeighbourRate(NamedTuple):
    """Share of a point's nearest neighbours that have its attribute, mean over points, and the rate at chance."""

    rate: float
    chance: float


class NeighbourShares(NamedTuple):
    """For each point `[n]`: the share with its attribute among its nearest neighbours, and among all candidates."""

    near: Floats
    chance: Floats


def neighbour_rate(
    points: npt.ArrayLike, attribute: npt.ArrayLike, groups: npt.ArrayLike, *, k: int = 5
) -> NeighbourRate:
    """Return how many of a point's k nearest points by cosine, from other `groups` (sentences), share its `attribute`.

    Chance is the share among all points of other groups, averaged over points like the rate. Computed in the full
    space, so a map's distortions play no part. Raises `InputError` if a point has fewer than k candidates, and for k
    below 1.
    """
    return NeighbourRate(*(float(of.mean()) for of in neighbour_shares(points, attribute, groups, k=k)))


def neighbour_shares(
    points: npt.ArrayLike, attribute: npt.ArrayLike, groups: npt.ArrayLike, *, k: int = 5
) -> NeighbourShares:
    """Compute `neighbour_rate` per point."""
    if k < 1:
        raise InputError(f"k: {k}; expected at least 1")
    unit = units(points)
    value, of = (np.unique(np.asarray(one), return_inverse=True)[1].ravel() for one in (attribute, groups))
    if not len(value) == len(of) == len(unit):
        raise InputError(f"{len(unit)} points, {len(value)} attributes, {len(of)} groups: expected equal numbers")
    other = of[:, None] != of[None]
    if other.sum(1).min() < k:
        raise InputError(f"points: some have fewer than {k} others in other groups")
    similarity = np.where(other, unit @ unit.T, -np.inf)
    near: Ints = np.argpartition(-similarity, k - 1, axis=1)[:, :k]
    same = value[:, None] == value[None]
    shares: Floats = same[np.arange(len(unit))[:, None], near].mean(1)
    return NeighbourShares(shares, (same & other).sum(1) / other.sum(1))
