"""One cloud of representations, a layer at a snapshot, with what measures ask of it, each worked out once."""

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import stats

from isoscope.geometry import moments
from isoscope.geometry.dimension import Estimate
from isoscope.geometry.moments import Floats, Ints

OWN = 0.9
"""Share of sentences' vectors that must differ: fewer are not of sentences, but of the few tokens that they look at."""


class OfAll(Estimate):
    """An estimate from all points of a cell with an interval of its own; any other is of subsamples."""


def fault(points: Floats, *, sentences: bool) -> str | None:
    """Why `points` have no geometry to speak of, or None.

    All are one: [CLS] at layer 0 of a fusion that looks at one token at a time. Or they are of `sentences` that share
    their vectors: there of a kernel, which sees the first word too.
    """
    spread = np.sqrt(((points - points.mean(0)) ** 2).sum(1).mean())
    if spread <= moments.ALIKE * np.sqrt((points**2).sum(1).mean()):
        return "all points are one"
    if sentences and (own := moments.distinct(points)) < OWN * len(points):
        return f"only {own} of {len(points)} vectors differ"
    return None


class Cell:
    """A cloud `points` `[n, d]` and what is known of its points.

    `labels`: class of each, None where they have none (words). `groups`: the sentence of each. `names`: the word of
    each, or None. `attributes`: nuisances by name (first token, length, …), each `[n]`. `subsample` points in each of
    `draws` subsamples without replacement, the same in all cells of as many points.
    """

    def __init__(
        self,
        points: npt.ArrayLike,
        *,
        labels: Ints | None,
        groups: Ints,
        names: list[str] | None,
        attributes: Mapping[str, Ints],
        subsample: int,
        draws: int,
        confidence: float,
        seed: int,
    ) -> None:
        self.points = moments.as_cloud(points)
        self.labels, self.groups, self.names, self.attributes = labels, groups, names, attributes
        self.subsample, self.draws, self.confidence, self.seed = subsample, draws, confidence, seed

    @property
    def n(self) -> int:
        return len(self.points)

    @property
    def d(self) -> int:
        return self.points.shape[1]

    @cached_property
    def fault(self) -> str | None:
        """Why these points have no geometry, see `fault`."""
        return fault(self.points, sentences=self.names is None)

    @cached_property
    def raw(self) -> Floats:
        """Squared singular values."""
        return moments.spectrum(self.points, centred=False)

    @cached_property
    def centred(self) -> Floats:
        """Squared singular values after the mean is taken off."""
        return moments.spectrum(self.points)

    @cached_property
    def within(self) -> Floats | None:
        """Squared singular values after each class's mean is taken off; None without classes."""
        if self.labels is None:
            return None
        return moments.spectrum(moments.within_classes(self.points, self.labels), centred=False)

    @cached_property
    def subsamples(self) -> list[Ints]:
        """Rows of each subsample, by a stream that depends on the seed and n alone."""
        random = np.random.default_rng((self.seed, self.n))
        size = min(self.subsample, self.n)
        return [np.sort(random.permutation(self.n)[:size]) for _ in range(self.draws)]

    def at_fixed_n(self, function: Callable[[Floats], float]) -> Estimate:
        """A figure of `subsample` points, see `spread`."""
        return self.spread([function(self.points[rows]) for rows in self.subsamples])

    def spread(self, figures: list[float]) -> Estimate:
        """Mean of a figure over subsamples, and where it lies for as many other points with probability `confidence`.

        A prediction interval, mean ± t(k − 1)·sd·√((1 + m/n)/(1 − m/n) + 1/k) for k subsamples of m of n points: they
        overlap, so they differ by a share √(1 − m/n) of what samples do, and their mean has the error of all n points.
        No interval for fewer than two subsamples' worth of points, or one draw; NaN if a figure is.
        """
        values = np.array(figures)
        if not np.isfinite(values).all():
            return Estimate(float("nan"), float("nan"), float("nan"))
        if self.n < 2 * self.subsample or len(values) < 2:
            return Estimate(float(values.mean()), float("nan"), float("nan"))
        share = self.subsample / self.n
        wider = np.sqrt((1 + share) / (1 - share) + 1 / len(values))
        half = float(stats.t.ppf((1 + self.confidence) / 2, len(values) - 1) * values.std(ddof=1) * wider)
        return Estimate(float(values.mean()), float(values.mean()) - half, float(values.mean()) + half)

    def twin(self) -> "Cell":
        """Isotropic Gaussian noise in this cell's place: as many points and dimensions, the same labels and words."""
        noise = np.random.default_rng((self.seed, self.n, self.d)).standard_normal(self.points.shape)
        return Cell(
            noise,
            labels=self.labels,
            groups=self.groups,
            names=self.names,
            attributes=self.attributes,
            subsample=self.subsample,
            draws=self.draws,
            confidence=self.confidence,
            seed=self.seed,
        )
