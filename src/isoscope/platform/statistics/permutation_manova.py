"""Permutation MANOVA (Anderson 2001): the share of the squared distances between runs that each factor explains."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from isoscope.platform.statistics.paired import FEWEST_SEEDS, Interval

Array = NDArray[np.float64]
INTERACTION, WITHIN = "interaction", "within"
"""What the factors explain only together, and what is left between runs that are equal in all factors."""


class Source(NamedTuple):
    """A source of variation."""

    name: str
    df: int
    squares: float
    """Sum of squared distances that it explains; a factor's is what it adds to all other factors."""
    share: float
    """`squares` over the total (R²). In a balanced design all shares sum to 1, otherwise factors may overlap."""
    f: float
    """Pseudo-F, over the mean square within cells; NaN without replicates, and for `INTERACTION` and `WITHIN`."""
    p: float
    """Of f, by permutation; NaN where there is no f."""


def hellinger(values: Array) -> Array:
    """Return the Hellinger distances `[n, n]` of profiles `[n, g]`: ‖√p − √q‖/√2 with p = |values| / Σ|values|.

    It reads magnitudes: what helps and what hurts count alike. Raises `ValueError` for a profile of zeros.
    """
    return _euclidean(np.sqrt(np.abs(values) / _positive(np.abs(values).sum(axis=1, keepdims=True))) / np.sqrt(2))


def cosine(values: Array) -> Array:
    """Return the distances `[n, n]` of profiles `[n, g]` by their cosine: √(2 − 2 cos), between unit vectors.

    It reads signed values. The root makes squared distances add up as squares do; 1 − cos itself does not.
    Raises `ValueError` for a profile of zeros.
    """
    return _euclidean(unit(values))


def unit(values: Array) -> Array:
    """Return profiles `[n, g]` scaled to length 1. Raises `ValueError` for a profile of zeros."""
    scaled: Array = values / _positive(np.linalg.norm(values, axis=1, keepdims=True))
    return scaled


def _positive(norms: Array) -> Array:
    if not (norms > 0).all():
        raise ValueError(f"profile {int(np.flatnonzero(~(norms > 0))[0])} is zero or no number, so it has no shape")
    return norms


def _euclidean(points: Array) -> Array:
    distances: Array = np.linalg.norm(points[:, None] - points[None, :], axis=2)
    return distances


def sources(
    distances: Array, factors: Mapping[str, Sequence[Any]], *, permutations: int, seed: int = 0
) -> list[Source]:
    """Return the share of each factor, of `INTERACTION` (with several factors) and of `WITHIN`.

    - `distances` `[n, n]`; each factor has the level of each run.
    - Sums of squares are traces tr(HG): H projects on the levels' indicators, G is the doubly centred −d²/2
      (McArdle & Anderson 2001). For one factor and Euclidean distances in one dimension this is the analysis of
      variance.
    - A factor's squares are what it adds to a model of the other main effects. With factors that coincide in part
      (another size only for some of the data) it is thus compared where the others are equal.
    - Its p permutes runs within cells of equal levels of all other factors, where they are exchangeable if the factor
      has no effect (Anderson & ter Braak 2003): (1 + permutations with an F as large) / (1 + permutations).

    Raises `ValueError` if there is no variation.
    """
    levels = {
        name: np.unique(np.asarray(values, dtype=str), return_inverse=True)[1] for name, values in factors.items()
    }
    n = len(distances)
    middle = np.eye(n) - 1 / n
    gram = -0.5 * middle @ distances**2 @ middle
    total = float(np.trace(gram))
    if total <= 0:
        raise ValueError("all profiles are equal: no variation to explain")
    main, full = _projection(levels.values(), n), _projection([_cells(levels.values(), n)], n)
    inside = np.eye(n) - full
    df_inside = n - _rank(full)
    found, draw = [], np.random.default_rng(seed)
    for name in levels:
        others = [values for other, values in levels.items() if other != name]
        own = main - _projection(others, n)
        df = _rank(own)
        orders = np.array([np.arange(n), *_orders(_cells(others, n), permutations if df and df_inside else 0, draw)])
        squares = np.array([_squares(own, gram, order) for order in orders])
        f = p = float("nan")
        if df and df_inside:
            ratios = squares / df / (np.array([_squares(inside, gram, order) for order in orders]) / df_inside)
            f, p = float(ratios[0]), float((ratios >= ratios[0] * (1 - 1e-9)).mean())
        found.append(Source(name, df, float(squares[0]), float(squares[0]) / total, f, p))
    rest = {INTERACTION: full - main, WITHIN: inside} if len(levels) > 1 else {WITHIN: inside}
    for name, matrix in rest.items():
        squares_of = max(float((matrix * gram).sum()), 0.0)
        found.append(Source(name, _rank(matrix), squares_of, squares_of / total, float("nan"), float("nan")))
    return found


def _cells(levels: Iterable[NDArray[np.int64]], n: int) -> NDArray[np.int64]:
    """Return the number of the cell, the combination of all levels, that each run is in."""
    columns = [np.zeros(n, np.int64), *levels]
    numbers: NDArray[np.int64] = np.unique(np.stack(columns), axis=1, return_inverse=True)[1].reshape(-1)
    return numbers


def _projection(levels: Iterable[NDArray[np.int64]], n: int) -> Array:
    """Return the projection `[n, n]` on the constant and the indicators of all levels."""
    design = np.column_stack([np.ones(n), *(np.eye(int(values.max()) + 1)[values] for values in levels)])
    vectors, sizes, _ = np.linalg.svd(design, full_matrices=False)
    basis = vectors[:, sizes > 1e-9 * sizes[0]]
    projection: Array = basis @ basis.T
    return projection


def _rank(projection: Array) -> int:
    return round(float(np.trace(projection)))


def _squares(matrix: Array, gram: Array, order: NDArray[np.int64]) -> float:
    return float((matrix * gram[np.ix_(order, order)]).sum())


def _orders(strata: NDArray[np.int64], count: int, draw: np.random.Generator) -> Iterable[NDArray[np.int64]]:
    """Yield orders `[n]` that permute runs within strata."""
    sorted_runs = np.argsort(strata, kind="stable")
    for _ in range(count):
        order = np.empty(len(strata), np.int64)
        order[sorted_runs] = np.lexsort((draw.random(len(strata)), strata))
        yield order


def jackknife(
    distances: Array, factors: Mapping[str, Sequence[Any]], seeds: Sequence[Any], *, confidence: float
) -> dict[str, Interval | None]:
    """Return the interval of each share by leaving out one seed at a time: share ± t(S − 1) · standard error.

    The standard error is the jackknife's, √((S − 1)/S · Σ(share without s − their mean)²) over the S seeds, and the
    interval is cut at 0 and 1. None below 3 seeds. It covers other seeds, not other data or objectives: those are
    fixed. Simulated coverage of the 95 % interval (3 objectives, 6 data sets, normal noise, 200 draws): 93 % at 3 and
    at 5 seeds. The share of `WITHIN` itself grows with the number of seeds, and that of `INTERACTION` falls.
    """
    marks = np.asarray(seeds)
    every = sources(distances, factors, permutations=0)
    if len(np.unique(marks)) < FEWEST_SEEDS:
        return {source.name: None for source in every}
    without: dict[str, list[float]] = {}
    for one in np.unique(marks):
        kept = marks != one
        own = {name: np.array(of, dtype=str)[kept].tolist() for name, of in factors.items()}
        for source in sources(distances[kept][:, kept], own, permutations=0):
            without.setdefault(source.name, []).append(source.share)
    n = len(np.unique(marks))
    t = float(stats.t.ppf((1 + confidence) / 2, n - 1))
    half = {name: t * float(np.std(values)) * (n - 1) ** 0.5 for name, values in without.items()}
    return {
        source.name: Interval(max(source.share - half[source.name], 0.0), min(source.share + half[source.name], 1.0))
        for source in every
    }
