"""Every layer of one encoder against every layer of another: similarities with null and interval."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from isoscope.geometry.cross_products import CrossProducts, Triple, augmented, by_group, without_each
from isoscope.geometry.moments import Floats, Ints
from isoscope.geometry.similarity import Similarity


class Values(NamedTuple):
    """A similarity of two spaces; without each group of sentences `[G]`; and with sentences exchanged `[P]`."""

    value: float
    without: Floats
    null: Floats


class Side:
    """A layer of an encoder: its augmented points, and its products with itself, whole and without each group."""

    def __init__(self, points: Floats, groups: Ints) -> None:
        self.points = augmented(points)
        products = by_group(self.points, self.points, groups)
        self.whole, self.without = CrossProducts(products.sum(0)), without_each(products)


def similarities(
    one: Side, other: Side, measures: Sequence[Similarity], *, groups: Ints, permutations: Sequence[Ints]
) -> Mapping[str, Values]:
    """Return each measure of two layers with common items, by the measure's name.

    `groups` `[n]`: number of the group of sentences of each item. `permutations`: places `[n]` of the other layer's
    items, with sentences exchanged; their products are in float32.
    """
    products = by_group(one.points, other.points, groups)
    whole = Triple(one.whole, other.whole, CrossProducts(products.sum(0)))
    parts = [Triple(*own) for own in zip(one.without, other.without, without_each(products), strict=True)]
    null = [Triple(one.whole, other.whole, both) for both in _exchanged(one, other, permutations)]
    return {
        measure.name: Values(
            measure.of(whole),
            np.array([measure.of(part) for part in parts]),
            np.array([measure.of(part) for part in null]),
        )
        for measure in measures
    }


def _exchanged(one: Side, other: Side, permutations: Sequence[Ints]) -> Iterator[CrossProducts]:
    first, second = one.points.astype(np.float32), other.points.astype(np.float32)
    for places in permutations:
        yield CrossProducts((first.T @ second[places]).astype(np.float64))
