"""Cross-products of two clouds with common items, by group of items: what linear similarity measures are made of.

Sums over groups add up, so the measures of the whole, of half of the groups, and without each group need one pass over
the points. Products come in batches `[B, …]`: all that is measured of two clouds is measured at once.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from array_api_compat import is_torch_array
from numpy.typing import ArrayLike

from isoscope.geometry.array_kinds import Array, namespace
from isoscope.geometry.moments import Ints, centre, linked, rows_of_each

RANK = 1e-8
"""Smallest variance along a direction that counts, over the largest: 1e-4 in length, which float32 can tell from 0."""
EPSILON, TINY = 2.0**-52, 1e-300
PRECISE = 1e-10
"""Relative error up to which singular values are read off a product of a matrix with itself."""


class Whitened(NamedTuple):
    """Directions `[B, d, d]` along which a cloud has unit variance, summed over items; and its variances `[B, d]`.

    By rising variance; both are 0 for a direction that does not count. `rank` `[B]`: how many do.
    """

    directions: Array
    variances: Array
    rank: Array


@dataclass(eq=False)
class CrossProducts:
    """Sums over items of (x, 1, ‖x‖²)ᵀ(y, 1, ‖y‖²): `sums` `[B, dx + 2, dy + 2]`, in float64."""

    sums: Array

    @property
    def n(self) -> Array:
        """Items `[B]`."""
        return self.sums[:, -2, -2]

    @property
    def covariance(self) -> Array:
        """Centred cross-products Σ (x − x̄)(y − ȳ)ᵀ, `[B, dx, dy]`."""
        return self.sums[:, :-2, :-2] - self.sums[:, :-2, -2:-1] * self.sums[:, -2:-1, :-2] / self.n[:, None, None]

    @property
    def total(self) -> Array:
        """Trace of the covariance of a cloud with itself, `[B]`."""
        xp = namespace(self.sums)
        means = self.sums[:, :-2, -2] * self.sums[:, -2, :-2] / self.n[:, None]
        return xp.sum(xp.linalg.diagonal(self.sums)[:, :-2] - means, axis=1)

    @cached_property
    def hsic(self) -> Array:
        """Unbiased estimate of the Hilbert–Schmidt independence criterion with linear kernels `[B]`; NaN below 4 items.

        With K and L the kernels with zero diagonals: (tr KL + 1ᵀK1·1ᵀL1/((n−1)(n−2)) − 2/(n−2)·1ᵀKL1) / (n(n−3)).
        Source: Song et al. 2012 (JMLR 13). Unchanged by translation of either cloud.
        """
        xp = namespace(self.sums)
        n, cross = xp.where(self.n > 3.5, self.n, xp.nan), self.sums[:, :-2, :-2]
        one, other, lengths = self.sums[:, :-2, -2], self.sums[:, -2, :-2], self.sums[:, -1, -1]
        totals = xp.sum(one**2, axis=1) - self.sums[:, -1, -2], xp.sum(other**2, axis=1) - self.sums[:, -2, -1]
        moved = (cross @ other[:, :, None])[:, :, 0] - self.sums[:, :-2, -1]
        both = xp.sum(one * moved, axis=1) - xp.sum(self.sums[:, -1, :-2] * other, axis=1) + lengths
        trace = xp.sum(cross**2, axis=(1, 2)) - lengths
        return (trace + totals[0] * totals[1] / ((n - 1) * (n - 2)) - 2 / (n - 2) * both) / (n * (n - 3))

    @cached_property
    def whitened(self) -> Whitened:
        """Principal directions of a cloud, from its products with itself, each divided by its length.

        Without a ridge: a direction whose variance is below `RANK` of the largest is none.
        """
        xp = namespace(self.sums)
        variances, directions = xp.linalg.eigh(self.covariance)
        kept = variances > RANK * variances[:, -1:].clip(0.0)
        lengths = xp.where(kept, variances, xp.inf) ** 0.5
        return Whitened(directions / lengths[:, None], xp.where(kept, variances, 0.0), kept.sum(1))


@dataclass(eq=False)
class Triple:
    """The products of a cloud with itself, of another with itself, and of both, in batches; a batch of 1 is for all.

    `known`: results that several measures share, by what they depend on.
    """

    one: CrossProducts
    other: CrossProducts
    both: CrossProducts
    known: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def n(self) -> Array:
        return self.both.n

    @cached_property
    def across(self) -> Array:
        """Cross-products along the whitened directions of both, `[B, dx, dy]`."""
        xp = namespace(self.both.sums)
        one, other = self.one.whitened.directions, self.other.whitened.directions
        return xp.matrix_transpose(one) @ self.both.covariance @ other


def singular_values(matrices: Array, rank: Array) -> Array:
    """Return the singular values `[B, min(p, q)]` of matrices `[B, p, q]`, rising; 0 beyond `rank` `[B]`.

    They are the roots of eigenvalues, in a third of the time of a decomposition of the matrix itself, where that is
    `PRECISE`; else that of the decomposition.
    """
    xp = namespace(matrices)
    wide = matrices.shape[1] <= matrices.shape[2]
    values, doubtful = _roots(xp.linalg.eigvalsh(_gram(matrices, wide)), rank)
    for place in doubtful:
        values[place] = xp.flip(xp.linalg.svdvals(matrices[place]))
    return xp.where(counted(values.shape[1], rank), values, 0.0)


def singular(matrices: Array, rank: Array) -> tuple[Array, Array, Array]:
    """Return the values of `singular_values`, and the left `[B, p, r]` and right vectors `[B, q, r]`."""
    xp = namespace(matrices)
    wide = matrices.shape[1] <= matrices.shape[2]
    squares, own = xp.linalg.eigh(_gram(matrices, wide))
    values, doubtful = _roots(squares, rank)
    turned = xp.matrix_transpose(matrices) if wide else matrices
    other = turned @ own / (values + TINY)[:, None]
    left, right = (own, other) if wide else (other, own)
    for place in doubtful:
        vectors, lengths, across = xp.linalg.svd(matrices[place], full_matrices=False)
        values[place], left[place], right[place] = xp.flip(lengths), xp.flip(vectors, axis=1), xp.flip(across.T, axis=1)
    return xp.where(counted(values.shape[1], rank), values, 0.0), left, right


def _gram(matrices: Array, wide: bool) -> Array:
    """Return the products of matrices with themselves: a matrix at a time, of which NumPy computes half."""
    return namespace(matrices).stack([one @ one.T if wide else one.T @ one for one in matrices])


def _roots(squares: Array, rank: Array) -> tuple[Array, list[int]]:
    """Return the roots of eigenvalues `[B, r]`, rising, and the places in the batch at which they are not `PRECISE`."""
    xp = namespace(squares)
    values = squares.clip(0.0) ** 0.5
    error = EPSILON * squares[:, -1:].clip(0.0)
    errors = xp.where(counted(values.shape[1], rank), error / xp.maximum(values, error**0.5 + TINY), 0.0)
    doubtful = errors.sum(1) > PRECISE * values.sum(1)
    return values, [place for place, one in enumerate(doubtful.tolist()) if one]


def counted(size: int, rank: Array) -> Array:
    """Return which of values `[B, size]`, rising, are the `rank` `[B]` largest."""
    return namespace(rank).arange(size, 0, -1, device=rank.device) <= rank[:, None]


def augmented(points: ArrayLike) -> Array:
    """Return (x, 1, ‖x‖²) of the centred points, `[n, d + 2]`."""
    cloud = centre(points)
    xp = namespace(cloud)
    lengths = xp.sum(cloud**2, axis=1)[:, None]
    return xp.concat([cloud, xp.ones_like(lengths), lengths], axis=1)


def by_group(one: Array, other: Array, groups: Ints) -> Array:
    """Return the cross-products `[groups, dx + 2, dy + 2]` of augmented points `[n, …]`, summed within each group.

    `groups`: number of each item's group, from 0.
    """
    return namespace(one).stack([one[rows].T @ other[rows] for rows in rows_of_each(groups)])


def whole_and_without_each(products: Array) -> list[CrossProducts]:
    """Return the products of all groups, then without each group in turn, given those of every group (`by_group`).

    In batches: the whole alone, then the others in `batches`.
    """
    total = products.sum(0)[None]
    return [CrossProducts(total), *(CrossProducts(total - some) for some in batches(products))]


def batches(items: Any, array: Array | None = None) -> Iterator[Any]:
    """Yield items in batches of the size that suits an array (by default the items).

    NumPy takes them singly, since larger arrays would leave the cache; a device takes many in a call.
    """
    size = 32 if is_torch_array(items if array is None else array) else 1
    return (items[start : start + size] for start in range(0, len(items), size))


def triple(one: ArrayLike, other: ArrayLike) -> Triple:
    """Return the products of two clouds `[n, dx]` and `[n, dy]` with common items, a batch of 1."""
    x, y = map(augmented, linked(one, other))
    own, theirs, both = (CrossProducts((a.T @ b)[None]) for a, b in ((x, x), (y, y), (x, y)))
    return Triple(own, theirs, both)
