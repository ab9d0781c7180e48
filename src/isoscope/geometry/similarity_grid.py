"""Every layer of one encoder against every layer of another: similarities with null and interval."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from isoscope.errors import InputError
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
    """Products of all groups, of even groups and of odd groups; each whole, then without each group in turn."""

    every: list[CrossProducts]
    fitted: list[CrossProducts]
    tested: list[CrossProducts]


def parts(products: Floats) -> Parts:
    """Return the parts of the products by group `[G, …]`; a half from which no group is missing is one object."""
    halves = []
    for half in (products[0::2], products[1::2]):
        whole = CrossProducts(half.sum(0))
        halves.append((whole, without_each(half)))
    places = range(len(products))
    fitted, tested = (
        [whole, *(left[place // 2] if place % 2 == half else whole for place in places)]
        for half, (whole, left) in enumerate(halves)
    )
    return Parts([CrossProducts(products.sum(0)), *without_each(products)], fitted, tested)


def similarities(
    one: Side,
    other: Side,
    measures: Sequence[Similarity | HeldOutCCA],
    *,
    groups: Ints,
    permutations: Sequence[Ints],
) -> Mapping[str, Values]:
    """Return each measure of two layers with common items, by the measure's name.

    `groups` `[n]`: number of the group of sentences of each item; even groups are one half, odd groups the other.
    `permutations`: places `[n]` of the other layer's items, with sentences exchanged within halves; their products are
    in float32. A measure that refuses the products has a value of NaN, and says why.
    """
    both = parts(by_group(one.points, other.points, groups))
    of_parts = [list(map(Triple, *lists)) for lists in zip(one.parts, other.parts, both, strict=True)]
    null = [
        [Triple(first[0], second[0], own) for first, second, own in zip(one.parts, other.parts, exchanged, strict=True)]
        for exchanged in _exchanged(one, other, groups % 2, permutations)
    ]
    found = {}
    for measure in measures:
        of, taken = (measure.of_halves, slice(1, 3)) if isinstance(measure, HeldOutCCA) else (measure.of, slice(0, 1))
        try:
            value, *without = (of(*triples) for triples in zip(*of_parts[taken], strict=True))
        except InputError as error:
            found[measure.name] = Values(float("nan"), np.empty(0), np.empty(0), str(error))
            continue
        left = np.array(without)
        if isinstance(measure, HeldOutCCA):
            # Without a group of the fitted half is another sample than without one of the tested half.
            means = np.array([left[0::2].mean(), left[1::2].mean()])
            left = left + left.mean() - means[np.arange(len(left)) % 2]
        found[measure.name] = Values(value, left, np.array([of(*triples[taken]) for triples in null]))
    return found


def _exchanged(one: Side, other: Side, halves: Ints, permutations: Sequence[Ints]) -> Iterator[list[CrossProducts]]:
    """Yield the products with sentences exchanged: of all items, of one half, of the other."""
    first, second = one.points.astype(np.float32), other.points.astype(np.float32)
    for places in permutations:
        own = [(first[halves == half].T @ second[places[halves == half]]).astype(np.float64) for half in range(2)]
        yield [CrossProducts(sums) for sums in (own[0] + own[1], *own)]
