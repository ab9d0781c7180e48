"""Similarity of two spaces with common items, from their cross-products: CKA, CCA, SVCCA, PWCCA and Procrustes.

Each is an estimator with its options as fields: `PWCCA(side="one").score(x, y)` for points `[n, dx]` and `[n, dy]`, row
i of both being the same item. 1 for equal spaces; `invariances` says which transformations of a space change nothing:

    translation    of all points by one vector
    scaling        by a number (isotropic)
    orthogonal     multiplication by an orthogonal matrix
    linear         multiplication by an invertible matrix

Independent clouds do not score 0 in general (CCA least of all), so a value needs the null of `similarity_grid` beside
it. Arithmetic is in float64.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

from annotated_types import Ge, Gt, Le
from numpy.typing import ArrayLike

from isoscope.base.entry import check_fields
from isoscope.base.errors import InputError
from isoscope.geometry.array_kinds import Array, namespace
from isoscope.geometry.cross_products import RANK, Triple, Whitened, counted, singular, singular_values, triple
from isoscope.geometry.moments import linked

FEWEST_PER_DIMENSION = 10.0
"""Items per dimension of both spaces that CCA asks for. Independent clouds have a mean squared correlation of
max(dx, dy) / (n − 1)."""
Invariances = tuple[str, ...]
ISOMETRY: Invariances = ("translation", "scaling", "orthogonal")


class Similarity(ABC):
    """A measure of the similarity of two spaces."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def invariances(self) -> tuple[Invariances, Invariances]:
        """Transformations that change nothing, of the first space and of the second."""

    @abstractmethod
    def of(self, products: Triple) -> Array:
        """Return the similarity of two spaces, given their cross-products, `[B]`; NaN where it is not defined."""

    def score(self, x: ArrayLike, y: ArrayLike) -> float:
        """Return the similarity of two spaces, `[n, dx]` and `[n, dy]`. Raises `InputError` for unequal n."""
        return float(self.of(triple(x, y))[0])


class CKA(Similarity):
    """Unbiased linear centred kernel alignment: HSIC(x, y) / √(HSIC(x, x) · HSIC(y, y)).

    0 in the mean for independent items, so it can be negative. NaN below 4 items, or if a cloud's own HSIC is not above
    0. Source: Kornblith et al. 2019, with the estimator of Song et al. 2012.
    """

    name = "cka"
    invariances = ISOMETRY, ISOMETRY

    def of(self, products: Triple) -> Array:
        both, one, other = (of.hsic for of in (products.both, products.one, products.other))
        xp, defined = namespace(both), (one > 0) & (other > 0)
        return xp.where(defined, both, xp.nan) / xp.where(defined, one * other, 1.0) ** 0.5


class Procrustes(Similarity):
    """Orthogonal Procrustes similarity: the sum of the singular values of XᵀY over ‖X‖·‖Y‖, both centred.

    1 − its square is the share of Y's variance that the best rotation and scaling of X leaves (Gower's m²).
    """

    name = "procrustes"
    invariances = ISOMETRY, ISOMETRY

    def of(self, products: Triple) -> Array:
        one, other, across = products.one.total, products.other.total, products.both.covariance
        xp, defined = namespace(across), (one > 0) & (other > 0)
        sums = singular_values(across, xp.full_like(one + other, min(across.shape[1:]))).sum(1)
        return xp.where(defined, sums, xp.nan) / xp.where(defined, one * other, 1.0) ** 0.5


class Canonical(NamedTuple):
    """Canonical correlations `[B, r]`, rising, and the weights of each pair of canonical variables.

    `one` `[B, dx', r]` and `other` `[B, dy', r]`: on the last whitened directions of each space, see `Whitened`.
    `rank` `[B]`: how many of the pairs count, the last; the others have a correlation of 0.
    """

    correlations: Array
    one: Array
    other: Array
    rank: Array

    @property
    def counted(self) -> Array:
        """Which of the pairs count, `[B, r]`."""
        return counted(self.correlations.shape[1], self.rank)


@dataclass(kw_only=True, eq=False)
class CCA(Similarity):
    """Mean canonical correlation, over the smaller rank of both spaces.

    - `components`: the first principal components of each space alone.
    - `variance`: as many of them as have this share of a space's variance.
    - `few`: also for fewer than 10 items per dimension, where correlations are large for independent clouds.
    """

    name = "cca"
    components: Annotated[int, Ge(1)] | None = None
    variance: Annotated[float, Gt(0), Le(1)] | None = None
    few: bool = False

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def invariances(self) -> tuple[Invariances, Invariances]:
        every = ISOMETRY if self.components or self.variance else (*ISOMETRY, "linear")
        return every, every

    def of(self, products: Triple) -> Array:
        """Return the similarity `[B]`; NaN for a space of one point. Raises `InputError` as `canonical`."""
        found = self.canonical(products)
        return mean(found.correlations, found.rank)

    def canonical(self, products: Triple) -> Canonical:
        """Return correlations and weights. Raises `InputError` for too few items, unless `few`."""
        options = (self.components, self.variance, self.few)
        if options not in products.known:
            across, rank = self._across(products)
            correlations, one, other = singular(across, rank)
            products.known[options] = Canonical(correlations.clip(0.0, 1.0), one, other, rank)
        known: Canonical = products.known[options]
        return known

    def _across(self, products: Triple) -> tuple[Array, Array]:
        """Return the cross-products along the principal directions that count `[B, dx', dy']`, and their ranks."""
        ranks = [self._rank(own.whitened) for own in (products.one, products.other)]
        few = products.n < FEWEST_PER_DIMENSION * (ranks[0] + ranks[1])
        if not self.few and few.any():
            n, dimensions = (float(one[few][0]) for one in (products.n, ranks[0] + ranks[1] + 0 * products.n))
            raise InputError(
                f"{n:.0f} items for {dimensions:.0f} dimensions of both spaces; CCA asks for "
                f"{FEWEST_PER_DIMENSION:.0f} per dimension: give more items or fewer components"
            )
        one, other = (counted(max(1, int(rank.max())), rank) for rank in ranks)
        across = products.across[:, -one.shape[1] :, -other.shape[1] :]
        if not (one.all() and other.all()):
            across = across * one[:, :, None] * other[:, None]
        return across, namespace(across).minimum(*ranks)

    def _rank(self, space: Whitened) -> Array:
        """Return how many principal directions count, `[B]`."""
        xp, rank = namespace(space.rank), space.rank
        if self.components is not None:
            rank = rank.clip(None, self.components)
        if self.variance is not None:
            variances = xp.flip(space.variances, axis=1)
            share = xp.cumulative_sum(variances, axis=1) / xp.where(rank > 0, variances.sum(1), 1.0)[:, None]
            rank = xp.minimum(rank, 1 + (share < self.variance * (1 - RANK)).sum(1))
        return rank


def mean(correlations: Array, rank: Array) -> Array:
    """Return the mean of the correlations that count, `[B]`; NaN if there is none. The others are 0."""
    xp = namespace(correlations)
    return xp.where(rank > 0, correlations.sum(1), xp.nan) / rank.clip(1)


@dataclass(kw_only=True, eq=False)
class SVCCA(CCA):
    """Mean canonical correlation of the principal components that have 99 % of each space's variance.

    Source: Raghu et al. 2017.
    """

    name = "svcca"
    variance: Annotated[float, Gt(0), Le(1)] | None = 0.99

    def of(self, products: Triple) -> Array:
        """Return the similarity `[B]`; raises as `canonical`. Nothing else needs these directions."""
        across, rank = self._across(products)
        return mean(singular_values(across, rank).clip(0.0, 1.0), rank)


@dataclass(kw_only=True, eq=False)
class PWCCA(CCA):
    """Canonical correlations weighted by how much of one `side` each accounts for.

    A pair's weight is Σ_j |⟨h, x_j⟩| over the dimensions x_j of that side, centred; h is its canonical variable. So it
    depends on the side, and on its axes. Source: Morcos et al. 2018; the formula of the paper, not of its code, which
    changes with the mean of a space.
    """

    side: Literal["one", "other"] = "one"

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"pwcca_{self.side}"

    @property
    def invariances(self) -> tuple[Invariances, Invariances]:
        by_axis: Invariances = ("translation", "scaling")
        plain = super().invariances[0]
        return (by_axis, plain) if self.side == "one" else (plain, by_axis)

    def of(self, products: Triple) -> Array:
        """Return the similarity `[B]`; NaN for a space of one point. Raises `InputError` as `canonical`."""
        found = self.canonical(products)
        weights, own = (found.one, products.one) if self.side == "one" else (found.other, products.other)
        kept = weights.shape[1]
        lengths = own.whitened.directions[:, :, -kept:] * own.whitened.variances[:, None, -kept:]
        shares = abs(lengths @ weights).sum(1) * found.counted
        xp, total = namespace(shares), shares.sum(1)
        return xp.where(total > 0, (shares * found.correlations).sum(1), xp.nan) / xp.where(total > 0, total, 1.0)


class HeldOutCCA:
    """Mean correlation on one half of the items, along the canonical directions of the other half.

    Unlike CCA it is near 0 for independent clouds, and its sum counts the shared dimensions. Half of the items need 10
    per dimension. `components`, `few`: see `CCA`.
    """

    name: ClassVar[str] = "cca_held_out"

    def __init__(self, *, components: int | None = None, few: bool = False) -> None:
        self.cca = CCA(components=components, few=few)

    @property
    def invariances(self) -> tuple[Invariances, Invariances]:
        """Transformations that change nothing, of the first space and of the second."""
        return self.cca.invariances

    def of_halves(self, fitted: Triple, tested: Triple) -> Array:
        """Return the similarity in [−1, 1], `[B]`; NaN for a space of one point."""
        return mean(self.correlations(fitted, tested), self.cca.canonical(fitted).rank)

    def correlations(self, fitted: Triple, tested: Triple) -> Array:
        """Return the correlations `[B, r]` of each pair of canonical variables on the other items, in [−1, 1].

        0 for a pair that does not count, see `Canonical`.
        """
        found = self.cca.canonical(fitted)
        one, other = (
            own.whitened.directions[:, :, -weights.shape[1] :] @ weights
            for own, weights in ((fitted.one, found.one), (fitted.other, found.other))
        )
        across = (one * (tested.both.covariance @ other)).sum(1)
        sizes = [(own * (of.covariance @ own)).sum(1) for own, of in ((one, tested.one), (other, tested.other))]
        xp, product = namespace(across), sizes[0] * sizes[1]
        kept = found.counted & (product > 0)
        return xp.where(kept, across, 0.0) / xp.where(kept, product, 1.0) ** 0.5

    def score(self, x: ArrayLike, y: ArrayLike) -> float:
        """Return the similarity of two spaces, `[n, dx]` and `[n, dy]`: fitted on even rows, tested on odd rows."""
        one, other = linked(x, y)
        return float(self.of_halves(triple(one[::2], other[::2]), triple(one[1::2], other[1::2]))[0])
