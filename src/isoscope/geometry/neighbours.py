"""Whose neighbours points are: the evidence behind a map that shows clusters."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isoscope.errors import InputError
from isoscope.geometry.contextuality import units
from isoscope.geometry.moments import Floats, Ints


class NeighbourRate(NamedTuple):
    """Share of a point's nearest neighbours that have its attribute, mean over points, and what chance would give."""

    rate: float
    chance: float


class NeighbourShares(NamedTuple):
    """Of each point `[n]`: the share of its nearest neighbours, and of all it could be near to, that are like it."""

    near: Floats
    chance: Floats


def neighbour_rate(
    points: npt.ArrayLike, attribute: npt.ArrayLike, groups: npt.ArrayLike, *, k: int = 5
) -> NeighbourRate:
    """Among a point's k nearest by cosine, of other `groups` (sentences), how many share its `attribute`.

    Chance is the share among all points of other groups, mean over points as the rate is. In the full space, so that a
    map's distortions play no part. Raises `InputError` where a point has fewer than k others to be near to, and for k
    below 1.
    """
    return NeighbourRate(*(float(of.mean()) for of in neighbour_shares(points, attribute, groups, k=k)))


def neighbour_shares(
    points: npt.ArrayLike, attribute: npt.ArrayLike, groups: npt.ArrayLike, *, k: int = 5
) -> NeighbourShares:
    """`neighbour_rate` point by point."""
    if k < 1:
        raise InputError(f"k: {k}, but a point has one nearest neighbour at least")
    unit = units(points)
    value, of = (np.unique(np.asarray(one), return_inverse=True)[1].ravel() for one in (attribute, groups))
    if not len(value) == len(of) == len(unit):
        raise InputError(f"{len(unit)} points, {len(value)} attributes, {len(of)} groups: expected as many of each")
    other = of[:, None] != of[None]
    if other.sum(1).min() < k:
        raise InputError(f"points: some have fewer than {k} others in other groups")
    similarity = np.where(other, unit @ unit.T, -np.inf)
    near: Ints = np.argpartition(-similarity, k - 1, axis=1)[:, :k]
    same = value[:, None] == value[None]
    shares: Floats = same[np.arange(len(unit))[:, None], near].mean(1)
    return NeighbourShares(shares, (same & other).sum(1) / other.sum(1))
