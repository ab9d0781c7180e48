"""Cross-products of two clouds with common items, by group of items: what linear similarity measures are made of.

Sums over groups add up, so the measures of the whole, of half of the groups, and without each group need one pass over
the points.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from isoscope.geometry.moments import Floats, Ints, centre, linked, rows_of_each

RANK = 1e-8
"""Smallest variance along a direction that counts, over the largest: 1e-4 in length, which float32 can tell from 0."""


class Whitened(NamedTuple):
    """Directions `[d, r]` along which a cloud has unit variance, summed over items; and its variances along them."""

    directions: Floats
    variances: Floats


@dataclass(eq=False)
class CrossProducts:
    """Sums over items of (x, 1, ‖x‖²)ᵀ(y, 1, ‖y‖²): `sums` `[dx + 2, dy + 2]`, in float64."""

    sums: Floats

    @property
    def n(self) -> float:
        """Items."""
        return float(self.sums[-2, -2])

    @property
    def covariance(self) -> Floats:
        """Centred cross-products Σ (x − x̄)(y − ȳ)ᵀ, `[dx, dy]`."""
        return self.sums[:-2, :-2] - np.outer(self.sums[:-2, -2], self.sums[-2, :-2]) / self.n

    @property
    def hsic(self) -> float:
        """Unbiased estimate of the Hilbert–Schmidt independence criterion with linear kernels; needs 4 items.

        With K and L the kernels with zero diagonals: (tr KL + 1ᵀK1·1ᵀL1/((n−1)(n−2)) − 2/(n−2)·1ᵀKL1) / (n(n−3)).
        Source: Song et al. 2012 (JMLR 13). Unchanged by translation of either cloud.
        """
        n, cross = self.n, self.sums[:-2, :-2]
        one, other = self.sums[:-2, -2], self.sums[-2, :-2]
        lengths = float(self.sums[-1, -1])
        totals = (float(one @ one - self.sums[-1, -2]), float(other @ other - self.sums[-2, -1]))
        both = float(one @ cross @ other - self.sums[-1, :-2] @ other - self.sums[:-2, -1] @ one) + lengths
        trace = float((cross**2).sum()) - lengths
        return (trace + totals[0] * totals[1] / ((n - 1) * (n - 2)) - 2 / (n - 2) * both) / (n * (n - 3))

    @cached_property
    def whitened(self) -> Whitened:
        """Principal directions of a cloud, from its products with itself, each divided by its length.

        Without a ridge: a direction whose variance is below `RANK` of the largest is none.
        """
        variances, directions = np.linalg.eigh(self.covariance)
        variances, directions = variances[::-1], directions[:, ::-1]
        kept = variances > RANK * max(variances[0], 0.0)
        return Whitened(directions[:, kept] / np.sqrt(variances[kept]), variances[kept])


@dataclass(eq=False)
class Triple:
    """The products of a cloud with itself, of another with itself, and of both.

    `known`: results that several measures share, by what they depend on.
    """

    one: CrossProducts
    other: CrossProducts
    both: CrossProducts
    known: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def n(self) -> float:
        return self.both.n


def augmented(points: ArrayLike) -> Floats:
    """Return (x, 1, ‖x‖²) of the centred points, `[n, d + 2]`."""
    cloud = centre(points)
    return np.column_stack([cloud, np.ones(len(cloud)), (cloud**2).sum(1)])


def by_group(one: Floats, other: Floats, groups: Ints) -> Floats:
    """Return the cross-products `[groups, dx + 2, dy + 2]` of augmented points `[n, …]`, summed within each group.

    `groups`: number of each item's group, from 0.
    """
    return np.stack([one[rows].T @ other[rows] for rows in rows_of_each(groups)])


def without_each(products: Floats) -> list[CrossProducts]:
    """Return the products without each group in turn, given those of every group (see `by_group`)."""
    total = products.sum(0)
    return [CrossProducts(total - own) for own in products]


def triple(one: ArrayLike, other: ArrayLike) -> Triple:
    """Return the products of two clouds `[n, dx]` and `[n, dy]` with common items."""
    x, y = map(augmented, linked(one, other))
    return Triple(CrossProducts(x.T @ x), CrossProducts(y.T @ y), CrossProducts(x.T @ y))
