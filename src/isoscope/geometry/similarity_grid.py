"""Every layer of one encoder against every layer of another: similarities with null and interval.

RSA and nearest neighbours compare the distances between items. Their items are of different sentences, so an exchange
of items is one of sentences. Neighbours of items in odd groups are sought in even groups: an item that is asked is
nobody's neighbour, so answers are independent given the candidates.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import squareform

from isoscope.base.errors import InputError
from isoscope.geometry.cross_products import CrossProducts, Triple, augmented, by_group, without_each
from isoscope.geometry.moments import Floats, Ints
from isoscope.geometry.neighbour_similarity import RSA, Neighbours, overlaps
from isoscope.geometry.similarity import HeldOutCCA, Similarity

PARTIAL = "rsa_partial"


class Values(NamedTuple):
    """A similarity of two spaces; without each group of sentences `[G]`; and with sentences exchanged `[P]`."""

    value: float
    without: Floats
    null: Floats
    why: str | None = None
    """Why there is no value."""


def missing(why: str) -> Values:
    """Return no value, and why."""
    return Values(float("nan"), np.empty(0), np.empty(0), why)


class Side:
    """A layer of an encoder: its augmented points, and its products with itself by group of sentences."""

    def __init__(self, points: Floats, groups: Ints) -> None:
        self.points = augmented(points)
        self.products = by_group(self.points, self.points, groups)

    @cached_property
    def parts(self) -> "Parts":
        return parts(self.products)


class Parts(NamedTuple):
    """Products of all groups and of odd groups, each whole, then without each group in turn; and of even groups."""

    every: list[CrossProducts]
    fitted: CrossProducts
    tested: list[CrossProducts]

    @property
    def whole(self) -> tuple[CrossProducts, CrossProducts, CrossProducts]:
        return self.every[0], self.fitted, self.tested[0]


def parts(products: Floats) -> Parts:
    """Return the parts of the products by group `[G, …]`."""
    every, tested = ([CrossProducts(own.sum(0)), *without_each(own)] for own in (products, products[1::2]))
    return Parts(every, CrossProducts(products[0::2].sum(0)), tested)


def similarities(
    one: Side,
    other: Side,
    measures: Sequence[Similarity | HeldOutCCA],
    *,
    groups: Ints,
    permutations: Sequence[Ints],
) -> Mapping[str, Values]:
    """Return each measure of two layers with common items, by the measure's name.

    `groups` `[n]`: number of the group of sentences of each item. The held-out CCA is fitted on even groups, and leaves
    out one odd group at a time: what it estimates is the similarity along the directions of this fit.
    `permutations`: places `[n]` of the other layer's items, with sentences exchanged within halves; their products are
    in float32. A measure that refuses the products has a value of NaN, and says why.
    """
    both = parts(by_group(one.points, other.points, groups))
    every = [*map(Triple, one.parts.every, other.parts.every, both.every)]
    fitted = Triple(one.parts.fitted, other.parts.fitted, both.fitted)
    tested = [*map(Triple, one.parts.tested, other.parts.tested, both.tested)]
    null = [
        [*map(Triple, one.parts.whole, other.parts.whole, exchanged)]
        for exchanged in _exchanged(one, other, groups % 2, permutations)
    ]
    found = {}
    for measure in measures:
        try:
            if isinstance(measure, HeldOutCCA):
                value, *without = (measure.of_halves(fitted, part) for part in tested)
                drawn = [measure.of_halves(*halves) for _, *halves in null]
            else:
                value, *without = map(measure.of, every)
                drawn = [measure.of(whole) for whole, *_ in null]
        except InputError as error:
            found[measure.name] = missing(str(error))
        else:
            found[measure.name] = Values(value, np.array(without), np.array(drawn))
    return found


def _exchanged(one: Side, other: Side, halves: Ints, permutations: Sequence[Ints]) -> Iterator[list[CrossProducts]]:
    """Yield the products with sentences exchanged: of all items, of one half, of the other."""
    first, second = one.points.astype(np.float32), other.points.astype(np.float32)
    for places in permutations:
        own = [(first[halves == half].T @ second[places[halves == half]]).astype(np.float64) for half in range(2)]
        yield [CrossProducts(sums) for sums in (own[0] + own[1], *own)]


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
    one: PairSide, other: PairSide, *, groups: Ints, permutations: Sequence[Ints]
) -> Mapping[str, Values]:
    """Return RSA, partial RSA and the overlap of neighbours of two layers with common items.

    `groups` `[n]`: number of each item's group. Without a group, RSA is the correlation of the distances that are left,
    with their ranks among all. The overlap is that of items in odd groups, among those in even groups, and leaves out
    one odd group at a time: what it estimates is the overlap among these candidates. `permutations`: places `[n]` of
    the other layer's items, exchanged within halves.
    """
    numbers = np.unique(groups, return_inverse=True)[1]  # without empty groups
    return {
        RSA.name: _correlation(one.distances, other.distances, numbers, permutations),
        PARTIAL: _correlation(one.left, other.left, numbers, permutations),
        Neighbours.name: _overlap(one, other, groups, permutations),
    }


def _overlap(one: PairSide, other: PairSide, groups: Ints, permutations: Sequence[Ints]) -> Values:
    if why := one.why or other.why:
        return missing(why)
    asked = groups % 2 == 1
    shared, of = overlaps(one.near[asked], other.near[asked]), groups[asked] // 2
    sums, counts = np.bincount(of, weights=shared), np.bincount(of)
    without = ((shared.sum() - sums) / (len(shared) - counts))[counts > 0]
    null = []
    for places in permutations:  # item i has taken the place of item places[i], and its neighbours are renamed
        moved = np.argsort(places)[other.near[places]]
        null.append(overlaps(one.near[asked], moved[asked]).mean())
    return Values(float(shared.mean()), without, np.array(null))


def _correlation(one: Floats, other: Floats, groups: Ints, permutations: Sequence[Ints]) -> Values:
    if not np.isfinite([one, other]).all():
        return missing("an item is 0 and has no direction")
    square, theirs = (squareform(own.astype(np.float32)) for own in (one, other))
    null = [float((square * theirs[np.ix_(places, places)]).sum()) / 2 for places in permutations]
    return Values(float(one @ other), _without_each(one, other, groups), np.array(null))


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
