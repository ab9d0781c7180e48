"""A cloud of representations, one layer at one snapshot, with cached quantities for its measures."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property

import numpy as np
from scipy import stats

from isoscope.data.arrays import Flags
from isoscope.data.scored_pairs import ScoredPairs
from isoscope.geometry import moments
from isoscope.geometry.array_kinds import Array, on_host, placed
from isoscope.geometry.dimension import Estimate
from isoscope.geometry.moments import Floats, Ints

DISTINCT = 0.9
"""Minimum share of distinct sentence vectors. With fewer, the vectors belong to the few tokens that they depend on."""


class OfAll(Estimate):
    """An estimate from all points of a cell with its own interval; a plain `Estimate` is over subsamples."""


def fault(points: Floats, *, sentences: bool) -> str | None:
    """Return why `points` have no meaningful geometry, or None.

    Either all points are equal: [CLS] at layer 0 of a fusion that reads one token at a time. Or several `sentences`
    share their vectors: [CLS] at layer 0 of a kernel, which also reads the first word.
    """
    spread = np.sqrt(((points - points.mean(0)) ** 2).sum(1).mean())
    if spread <= moments.ALIKE * np.sqrt((points**2).sum(1).mean()):
        return "all points are one"
    if sentences and (own := moments.distinct(points)) < DISTINCT * len(points):
        return f"only {own} of {len(points)} vectors differ"
    return None


@dataclass(eq=False)
class Cell:
    """A cloud `points` `[n, d]` and the attributes of its points.

    - `labels`: class of each point, None if there are none (words).
    - `groups`: sentence of each word; of sentences, what belongs together. `names`: word of each point, or None.
    - `attributes`: nuisances by name (first token, length, …), each `[n]`.
    - `pairs`: of a cloud of sentences in pairs that people scored; its numbers are those of the points.
    - `device`: where the measures compute that can do so on a card.
    - `subsample` points are in each of `draws` subsamples without replacement, the same in all cells with equal n.
    """

    points: Floats
    _: KW_ONLY
    labels: Ints | None
    groups: Ints
    names: list[str] | None
    attributes: Mapping[str, Ints]
    subsample: int
    draws: int
    confidence: float
    seed: int
    pairs: ScoredPairs | None = None
    device: str = "cpu"

    @cached_property
    def moved(self) -> Array:
        """The points on the `device`: NumPy's on the CPU, else a tensor."""
        return placed(self.points, self.device)

    @property
    def n(self) -> int:
        return len(self.points)

    @property
    def d(self) -> int:
        return self.points.shape[1]

    @property
    def items(self) -> int:
        """What all points are of: the pairs of sentences in pairs, else the points."""
        return self.n if self.pairs is None else len(self.pairs.score)

    @cached_property
    def fault(self) -> str | None:
        """Why these points have no meaningful geometry, see `fault`."""
        return fault(self.points, sentences=self.names is None)

    @cached_property
    def raw(self) -> Floats:
        """Squared singular values."""
        return on_host(moments.spectrum(self.moved, centred=False))

    @cached_property
    def centred(self) -> Floats:
        """Squared singular values after mean subtraction."""
        return on_host(moments.spectrum(self.moved))

    @cached_property
    def within(self) -> Floats | None:
        """Squared singular values after subtraction of each class's mean; None without classes."""
        if self.labels is None:
            return None
        return on_host(moments.spectrum(moments.within_classes(self.moved, self.labels), centred=False))

    @cached_property
    def subsamples(self) -> list[Ints]:
        """Rows of each subsample, from a random stream that depends only on the seed and n.

        Of sentences these are whole groups; of the last only as many rows as are left. Words are drawn alone.
        """
        random = np.random.default_rng((self.seed, self.n))
        size = min(self.subsample, self.n)
        _, of = (None, np.arange(self.n)) if self.names is not None else np.unique(self.groups, return_inverse=True)
        # The places in an order are its inverse, so that groups of a single row are drawn as rows are.
        places = (np.argsort(random.permutation(of.max() + 1))[of] for _ in range(self.draws))
        return [np.sort(np.argsort(place, kind="stable")[:size]) for place in places]

    def at_fixed_n(self, function: Callable[[Floats], float]) -> Estimate:
        """Return a metric of `subsample` points, see `spread`."""
        return self.spread([function(self.points[rows]) for rows in self.subsamples])

    def spread(self, numbers: list[float]) -> Estimate:
        """Return the mean of a metric over subsamples, and its prediction interval for as many other points.

        The interval has probability `confidence`: mean ± t(k − 1)·sd·√((1 + m/n)/(1 − m/n) + 1/k) for k subsamples of m
        of n points. Subsamples overlap, so their spread is √(1 − m/n) times that of independent samples, and their mean
        has the error of all n points. There is no interval for fewer than two subsamples' worth of points, or for one
        draw. NaN if a value is not finite.
        """
        values, share = np.array(numbers), self.subsample / self.n
        mean = float(values.mean()) if np.isfinite(values).all() else float("nan")
        if np.isnan(mean) or share > 0.5 or len(values) < 2:
            return Estimate(mean, float("nan"), float("nan"))
        wider = np.sqrt((1 + share) / (1 - share) + 1 / len(values))
        half = float(stats.t.ppf((1 + self.confidence) / 2, len(values) - 1) * values.std(ddof=1) * wider)
        return Estimate(mean, mean - half, mean + half)

    def halves(self) -> tuple["Cell", "Cell"]:
        """Return two halves as cells, each with the whole sentences (`groups`) of a draw by the seed."""
        _, of = np.unique(self.groups, return_inverse=True)
        drawn = np.random.default_rng((self.seed, self.n)).permutation(of.max() + 1)[of]
        return self._taken(drawn <= of.max() // 2), self._taken(drawn > of.max() // 2)

    def _taken(self, rows: Flags) -> "Cell":
        return replace(
            self,
            points=self.points[rows],
            labels=None if self.labels is None else self.labels[rows],
            groups=self.groups[rows],
            names=None if self.names is None else [name for name, kept in zip(self.names, rows, strict=True) if kept],
            attributes={name: values[rows] for name, values in self.attributes.items()},
        )

    def twin(self) -> "Cell":
        """Return isotropic Gaussian noise as a cell with the same n, d, labels and words."""
        random = np.random.default_rng((self.seed, self.n, self.d))
        return replace(self, points=random.standard_normal(self.points.shape))
