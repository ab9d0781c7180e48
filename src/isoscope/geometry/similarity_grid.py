"""Every layer of one encoder against every layer of another: similarities with null and interval."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from isoscope.base.errors import InputError
from isoscope.geometry.cross_products import CrossProducts, Triple, augmented, by_group, without_each
from isoscope.geometry.moments import Floats, Ints
from isoscope.geometry.similarity import HeldOutCCA, Similarity


class Values(NamedTuple):
    """A similarity of two spaces; without each group of sentences `[G]`; and with sentences exchanged `[P]`."""

    value: float
    without: Floats
    null: Floats
    why: str | None = None
    """Why there is no value."""


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
            found[measure.name] = Values(float("nan"), np.empty(0), np.empty(0), str(error))
        else:
            found[measure.name] = Values(value, np.array(without), np.array(drawn))
    return found


def _exchanged(one: Side, other: Side, halves: Ints, permutations: Sequence[Ints]) -> Iterator[list[CrossProducts]]:
    """Yield the products with sentences exchanged: of all items, of one half, of the other."""
    first, second = one.points.astype(np.float32), other.points.astype(np.float32)
    for places in permutations:
        own = [(first[halves == half].T @ second[places[halves == half]]).astype(np.float64) for half in range(2)]
        yield [CrossProducts(sums) for sums in (own[0] + own[1], *own)]
