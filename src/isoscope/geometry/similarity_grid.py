"""Every layer of one encoder against every layer of another: similarities with null and interval.

RSA and nearest neighbours compare the distances between items. Their items are of different sentences, so an exchange
of items is one of sentences. Neighbours of items in odd groups are sought in even groups: an item that is asked is
nobody's neighbour, so answers are independent given the candidates.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from isoscope.base.errors import InputError
from isoscope.geometry.array_kinds import Array, beside, namespace, on_host
from isoscope.geometry.cross_products import CrossProducts, Triple, augmented, batches, by_group, whole_and_without_each
from isoscope.geometry.moments import Floats, Ints, within_classes
from isoscope.geometry.neighbour_similarity import RSA, Neighbours, overlaps, square
from isoscope.geometry.similarity import HeldOutCCA, Similarity

PARTIAL = "rsa_partial"
Products = tuple[CrossProducts, CrossProducts, CrossProducts]
"""Products of all items, of those in even groups, and of those in odd groups."""


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
    """A layer of an encoder: its augmented points, and its products with itself by group of sentences.

    `classes` `[n]`: the points are less the means of these. The points of a class are dependent then, in both layers,
    and the null has to be as dependent: after an exchange, the means of what has come are subtracted.
    """

    def __init__(self, points: Array, groups: Ints, classes: Ints | None = None) -> None:
        self.points = augmented(points)
        self.single = namespace(self.points).astype(self.points, namespace(self.points).float32)
        """The points in float32, for the null."""
        self.parts = parts(by_group(self.points, self.points, groups))
        self.classes, self.given = classes, points

    def exchanged(self, places: Ints, halves: Sequence[Ints]) -> tuple[Array, Products]:
        """Return the points at these places, in float32, and their products: of all, and of the items of each half."""
        if self.classes is None:
            return self.single[places], self.parts.whole
        xp = namespace(self.points)
        moved = beside(augmented(within_classes(on_host(self.given)[places], self.classes)), self.points)
        even, odd = (CrossProducts((moved[rows].T @ moved[rows])[None]) for rows in halves)
        return xp.astype(moved, xp.float32), (CrossProducts(even.sums + odd.sums), even, odd)


class Parts(NamedTuple):
    """Products of all groups and of odd groups, each whole, then without each group in turn; and of even groups."""

    every: list[CrossProducts]
    fitted: CrossProducts
    tested: list[CrossProducts]

    @property
    def whole(self) -> Products:
        return self.every[0], self.fitted, self.tested[0]


def parts(products: Array) -> Parts:
    """Return the parts of the products by group `[G, …]`."""
    every, tested = whole_and_without_each(products), whole_and_without_each(products[1::2])
    return Parts(every, CrossProducts(products[0::2].sum(0)[None]), tested)


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
    values: dict[str, tuple[list[float], list[float]]] = {measure.name: ([], []) for measure in measures}
    refused: dict[str, Values] = {}
    for null, whole, halves in _batches(one, other, groups, permutations):
        for measure in measures:
            if measure.name in refused:
                continue
            try:
                if isinstance(measure, HeldOutCCA):
                    found = [] if halves is None else measure.of_halves(*halves).tolist()
                else:
                    found = [] if whole is None else measure.of(whole).tolist()
            except InputError as error:
                refused[measure.name] = missing(str(error))
            else:
                values[measure.name][null].extend(found)
    made = {name: Values(own[0], np.array(own[1:]), np.array(null)) for name, (own, null) in values.items() if own}
    return {name: refused.get(name) or made[name] for name in values}


def _batches(one: Side, other: Side, groups: Ints, permutations: Sequence[Ints]) -> Iterator[Any]:
    """Yield the products of two layers in batches: whether of the null, of all items, and of both halves; or None."""
    both = parts(by_group(one.points, other.points, groups))
    for products in map(Triple, one.parts.every, other.parts.every, both.every):
        yield False, products, None
    fitted = Triple(one.parts.fitted, other.parts.fitted, both.fitted)
    for products in map(Triple, one.parts.tested, other.parts.tested, both.tested):
        yield False, None, (fitted, products)
    xp, rows = namespace(one.points), [np.flatnonzero(groups % 2 == half) for half in range(2)]
    halves = [one.single[own].T for own in rows]
    for some in batches(permutations, one.points if other.classes is None else None):
        sums, theirs = [], other.parts.whole
        for to in some:
            moved, theirs = other.exchanged(to, rows)
            sums.append([half @ moved[own] for half, own in zip(halves, rows, strict=True)])
        even, odd = (CrossProducts(xp.astype(xp.stack(of), xp.float64)) for of in zip(*sums, strict=True))
        exchanged = CrossProducts(even.sums + odd.sums), even, odd
        whole, *of_halves = map(Triple, one.parts.whole, theirs, exchanged)
        yield True, whole, of_halves


class PairSide:
    """A layer of an encoder: the distances between its items (or their ranks), and each item's nearest neighbours.

    `near`: of the items in the other half; `groups` `[n]`: number of each item's group; `seed`: see `Neighbours`.
    `why`: there are none. `left`: what is left of the distances, regressed on `controls` (see `RSA.left_of`).
    """

    def __init__(
        self,
        points: Array,
        rsa: RSA,
        neighbours: Neighbours,
        controls: Sequence[Floats] = (),
        *,
        groups: Ints,
        seed: int = 0,
    ) -> None:
        distances = rsa.distances(points)
        self.distances, self.left = (square(of, len(points)) for of in (distances, rsa.left_of(distances, controls)))
        self.why = ""
        try:
            self.near = on_host(neighbours.nearest(points, groups % 2, seed=seed))
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


def _correlation(one: Array, other: Array, groups: Ints, permutations: Sequence[Ints]) -> Values:
    xp = namespace(one)
    if not (xp.isfinite(one).all() and xp.isfinite(other).all()):
        return missing("an item is 0 and has no direction")
    null = [(one * other[places][:, places]).sum() / 2 for places in permutations]
    without = _without_each(one, other, groups)
    return Values(float((one * other).sum()) / 2, on_host(without), on_host(xp.stack(null)) if null else np.empty(0))


def _without_each(one: Array, other: Array, groups: Ints) -> Array:
    """Return the correlation of two matrices of distances `[n, n]` without the pairs of each group of items."""
    xp = namespace(one)
    of = beside((groups[:, None] == np.arange(groups.max() + 1)).astype(float), one)
    kept, pairs_of_all = [], 1.0 - xp.eye(len(one), dtype=one.dtype, device=one.device)
    for values in (pairs_of_all, one, other, one * other, one**2, other**2):
        rows = values @ of  # of each item, the pairs with a group; both orders count half
        kept.append(values.sum() / 2 - rows.sum(0) + (of * rows).sum(0) / 2)
    pairs, x, y, xy, xx, yy = kept
    return (pairs * xy - x * y) / ((pairs * xx - x**2) * (pairs * yy - y**2)) ** 0.5
