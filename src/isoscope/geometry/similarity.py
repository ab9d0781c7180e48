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
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from isoscope.base.errors import InputError
from isoscope.geometry.cross_products import RANK, Triple, Whitened, triple
from isoscope.geometry.moments import Floats

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
    def of(self, products: Triple) -> float:
        """Return the similarity of two spaces, given their cross-products; NaN where it is not defined."""

    def score(self, x: ArrayLike, y: ArrayLike) -> float:
        """Return the similarity of two spaces, `[n, dx]` and `[n, dy]`. Raises `InputError` for unequal n."""
        return self.of(triple(x, y))


class CKA(Similarity):
    """Unbiased linear centred kernel alignment: HSIC(x, y) / √(HSIC(x, x) · HSIC(y, y)).

    0 in the mean for independent items, so it can be negative. NaN below 4 items, or if a cloud's own HSIC is not above
    0. Source: Kornblith et al. 2019, with the estimator of Song et al. 2012.
    """

    name = "cka"
    invariances = ISOMETRY, ISOMETRY

    def of(self, products: Triple) -> float:
        if products.n < 4:
            return float("nan")
        own = products.one.hsic, products.other.hsic
        return products.both.hsic / float(np.sqrt(own[0] * own[1])) if min(own) > 0 else float("nan")


class Procrustes(Similarity):
    """Orthogonal Procrustes similarity: the sum of the singular values of XᵀY over ‖X‖·‖Y‖, both centred.

    1 − its square is the share of Y's variance that the best rotation and scaling of X leaves (Gower's m²).
    """

    name = "procrustes"
    invariances = ISOMETRY, ISOMETRY

    def of(self, products: Triple) -> float:
        sizes = [float(np.trace(one.covariance)) for one in (products.one, products.other)]
        if min(sizes) <= 0:
            return float("nan")
        return float(np.linalg.svd(products.both.covariance, compute_uv=False).sum() / np.sqrt(sizes[0] * sizes[1]))


class Canonical(NamedTuple):
    """Canonical correlations `[r]`, falling, and the weights `[d, r]` of each pair of canonical variables."""

    correlations: Floats
    one: Floats
    other: Floats


@dataclass(kw_only=True, eq=False)
class CCA(Similarity):
    """Mean canonical correlation, over the smaller rank of both spaces.

    - `components`: the first principal components of each space alone.
    - `variance`: as many of them as have this share of a space's variance.
    - `few`: also for fewer than 10 items per dimension, where correlations are large for independent clouds.
    """

    name = "cca"
    components: int | None = None
    variance: float | None = None
    few: bool = False

    @property
    def invariances(self) -> tuple[Invariances, Invariances]:
        every = ISOMETRY if self.components or self.variance else (*ISOMETRY, "linear")
        return every, every

    def of(self, products: Triple) -> float:
        """Return the similarity; NaN for a space of one point. Raises `InputError` as `canonical`."""
        found = self.canonical(products)
        return self.mean(found, products) if len(found.correlations) else float("nan")

    def canonical(self, products: Triple) -> Canonical:
        """Return correlations and weights. Raises `InputError` for too few items, unless `few`."""
        options = (self.components, self.variance, self.few)
        if options not in products.known:
            products.known[options] = self._canonical(products)
        found: Canonical = products.known[options]
        return found

    def _canonical(self, products: Triple) -> Canonical:
        one, other = (self._kept(own.whitened) for own in (products.one, products.other))
        dimensions = len(one.variances) + len(other.variances)
        if not self.few and products.n < FEWEST_PER_DIMENSION * dimensions:
            raise InputError(
                f"{products.n:.0f} items for {dimensions} dimensions of both spaces; CCA asks for "
                f"{FEWEST_PER_DIMENSION:.0f} per dimension: give more items or fewer components"
            )
        across = one.directions.T @ products.both.covariance @ other.directions
        left, values, right = np.linalg.svd(across, full_matrices=False)
        return Canonical(np.clip(values, 0.0, 1.0), one.directions @ left, other.directions @ right.T)

    def mean(self, found: Canonical, products: Triple) -> float:
        """Return the mean of the correlations."""
        return float(found.correlations.mean())

    def _kept(self, space: Whitened) -> Whitened:
        """Return the principal directions that count."""
        count = self.components or len(space.variances)
        if self.variance is not None:
            shares = np.cumsum(space.variances) / space.variances.sum()
            count = min(count, 1 + int(np.searchsorted(shares, self.variance * (1 - RANK))))
        return Whitened(space.directions[:, :count], space.variances[:count])


@dataclass(kw_only=True, eq=False)
class SVCCA(CCA):
    """Mean canonical correlation of the principal components that have 99 % of each space's variance.

    Source: Raghu et al. 2017.
    """

    name = "svcca"
    variance: float | None = 0.99


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

    def mean(self, found: Canonical, products: Triple) -> float:
        weights, own = (found.one, products.one) if self.side == "one" else (found.other, products.other)
        shares = np.abs(own.covariance @ weights).sum(0)
        return float(shares @ found.correlations / shares.sum())


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

    def of_halves(self, fitted: Triple, tested: Triple) -> float:
        """Return the similarity in [−1, 1]; NaN for a space of one point."""
        found = self.correlations(fitted, tested)
        return float(found.mean()) if len(found) else float("nan")

    def correlations(self, fitted: Triple, tested: Triple) -> Floats:
        """Return the correlations `[r]` of each pair of canonical variables on the other items, in [−1, 1]."""
        found = self.cca.canonical(fitted)
        across = np.einsum("ir,ij,jr->r", found.one, tested.both.covariance, found.other, optimize=True)
        sizes = [
            np.einsum("ir,ij,jr->r", weights, own.covariance, weights, optimize=True)
            for weights, own in ((found.one, tested.one), (found.other, tested.other))
        ]
        product = sizes[0] * sizes[1]
        return np.divide(across, np.sqrt(product), out=np.zeros_like(across), where=product > 0)

    def score(self, x: ArrayLike, y: ArrayLike) -> float:
        """Return the similarity of two spaces, `[n, dx]` and `[n, dy]`: fitted on even rows, tested on odd rows."""
        one, other = np.asarray(x), np.asarray(y)
        return self.of_halves(triple(one[::2], other[::2]), triple(one[1::2], other[1::2]))
