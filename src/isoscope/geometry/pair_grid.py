"""Layers of two encoders compared by the distances between their items: RSA and nearest neighbours, with null.

Items are of different sentences, so an exchange of items is one of sentences. Neighbours of items in odd groups are
sought in even groups: an item that is asked is nobody's neighbour, so answers are independent given the candidates.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from isoscope.base.errors import InputError
from isoscope.geometry.moments import Floats, Ints
from isoscope.geometry.neighbour_similarity import RSA, Neighbours
from isoscope.geometry.similarity_grid import Values

PARTIAL = "rsa_partial"


class PairSide:
    """A layer of an encoder: the distances between its items (or their ranks), and each item's nearest neighbours.

    `near`: of the items in the other half; `groups` `[n]`: number of each item's group; `seed`: see `Neighbours`.
    `why`: there are none. `left`: what is left of the distances, regressed on `controls` (see `RSA.left_of`).
    """

    def __init__(
        self,
        points: Floats,
        rsa: RSA,
        neighbours: Neighbours,
        controls: Sequence[Floats] = (),
        *,
        groups: Ints,
        seed: int = 0,
    ) -> None:
        self.distances = rsa.distances(points)
        self.left = rsa.left_of(self.distances, controls)
        self.why = ""
        try:
            self.near = neighbours.nearest(points, groups % 2, seed=seed)
        except InputError as error:
            self.why = str(error)


def pair_similarities(
    one: PairSide, other: PairSide, rsa: RSA, neighbours: Neighbours, *, groups: Ints, permutations: Sequence[Ints]
) -> Mapping[str, Values]:
    """Return RSA, partial RSA and the overlap of neighbours of two layers with common items.

    `groups` `[n]`: number of each item's group. Without a group, RSA is the correlation of the distances that are left,
    with their ranks among all. The overlap is that of items in odd groups, among those in even groups, and leaves out
    one odd group at a time: what it estimates is the overlap among these candidates. `permutations`: places `[n]` of
    the other layer's items, exchanged within halves.
    """
    numbers = np.unique(groups, return_inverse=True)[1]  # without empty groups
    return {
        rsa.name: _correlation(one.distances, other.distances, numbers, permutations),
        PARTIAL: _correlation(one.left, other.left, numbers, permutations),
        neighbours.name: _overlap(one, other, neighbours, groups, permutations),
    }


def _overlap(
    one: PairSide, other: PairSide, neighbours: Neighbours, groups: Ints, permutations: Sequence[Ints]
) -> Values:
    if why := one.why or other.why:
        return Values(float("nan"), np.empty(0), np.empty(0), why)
    asked = groups % 2 == 1
    overlaps, of = neighbours.overlaps(one.near[asked], other.near[asked]), groups[asked] // 2
    sums, counts = np.bincount(of, weights=overlaps), np.bincount(of)
    without = ((overlaps.sum() - sums) / (len(overlaps) - counts))[counts > 0]
    null = [neighbours.overlaps(one.near[asked], _renamed(other.near, places)[asked]).mean() for places in permutations]
    return Values(float(overlaps.mean()), without, np.array(null))


def _correlation(one: Floats, other: Floats, groups: Ints, permutations: Sequence[Ints]) -> Values:
    if not np.isfinite([one, other]).all():
        return Values(float("nan"), np.empty(0), np.empty(0), "an item is 0 and has no direction")
    square, theirs = (_square(own, len(groups)) for own in (one, other))
    null = [float((square * theirs[np.ix_(places, places)]).sum()) / 2 for places in permutations]
    return Values(float(one @ other), _without_each(one, other, groups), np.array(null))


def _square(distances: Floats, n: int) -> npt.NDArray[np.float32]:
    """Return distances `[n(n − 1)/2]` as a matrix `[n, n]` in float32, with a diagonal of 0."""
    found = np.zeros((n, n), np.float32)
    found[np.triu_indices(n, 1)] = distances
    found += found.T
    return found


def _renamed(near: Ints, places: Ints) -> Ints:
    """Return the neighbours `[n, k]` of items that have moved: item i has taken the place of item `places[i]`."""
    back = np.empty_like(places)
    back[places] = np.arange(len(places))
    return back[near[places]]


def _without_each(one: Floats, other: Floats, groups: Ints) -> Floats:
    """Return the correlation of two lists of distances `[n(n − 1)/2]` without the pairs of each group of items."""
    n, count = len(groups), int(groups.max()) + 1
    first, second = np.triu_indices(n, 1)
    blocks = groups[first] * count + groups[second]
    kept = []
    for values in (np.ones_like(one), one, other, one * other, one**2, other**2):
        by_block = np.bincount(blocks, weights=values, minlength=count**2).reshape(count, count)
        kept.append(values.sum() - by_block.sum(0) - by_block.sum(1) + np.diag(by_block))
    pairs, x, y, xy, xx, yy = kept
    found: Floats = (pairs * xy - x * y) / np.sqrt((pairs * xx - x**2) * (pairs * yy - y**2))
    return found
