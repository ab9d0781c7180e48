"""Does one factor explain more than another? The cells of a two-way design in all orders: a cell is what was drawn."""

from collections.abc import Sequence
from itertools import permutations
from math import factorial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isoscope.platform.statistics.delete_a_group import pseudo_values
from isoscope.platform.statistics.paired import NO_VERDICT, Verdict

Array = NDArray[np.float64]
FEWEST_CONDITIONS = 6
"""With fewer data conditions a difference may be due to these conditions: they are a sample of all data, too."""
MOST_EXACT = 6
"""Cells whose orders are all tried (720); more cells are drawn in a random order `draws` times."""


class Permuted(NamedTuple):
    """The share of the squared distances that the first factor explains, minus the share of the second."""

    difference: float
    p: float
    """Share of the orders of the cells that give a difference as large: one-sided."""
    least: float
    """The least p that this design can give: orders that only rename levels give the same difference."""
    conditions: int
    """Levels of the second factor."""


def first_over_second(
    distances: Array, first: Sequence[Any], second: Sequence[Any], *, draws: int = 9999, seed: int = 0
) -> Permuted:
    """Return whether the first factor explains more of the squared distances between cells than the second.

    `distances` `[n, n]` between the cells of a full design, one per pair of levels (means over their runs: seeds of a
    cell are no sample of objectives or data). Null hypothesis: the cells are exchangeable. Raises `ValueError` for a
    design that is not full.
    """
    gram, contrast, sizes = _design(distances, first, second)
    n, observed = len(first), float((contrast * gram).sum())
    if not np.isfinite(observed):
        return Permuted(observed, observed, np.nan, sizes[1])
    orders = _orders(n, draws, seed)
    found = np.einsum("ij,kij->k", contrast, gram[orders[:, :, None], orders[:, None, :]])
    as_large = int((found >= observed - 1e-9 * abs(observed)).sum())
    exact = n <= MOST_EXACT
    p = as_large / len(found) if exact else (1 + as_large) / (1 + len(found))
    least = factorial(sizes[0]) * factorial(sizes[1]) / factorial(n)
    return Permuted(observed, p, least if exact else max(least, 1 / (1 + draws)), sizes[1])


def by_condition(distances: Array, first: Sequence[Any], second: Sequence[Any]) -> list[float]:
    """Return the jackknife's pseudo-values of `first_over_second(…).difference`, one per level of the second factor.

    J·θ − (J − 1)·θ₋ⱼ, for J levels, θ₋ⱼ without level j. If the levels are a sample, as data sets are of all data, the
    t interval of these values is for the difference over all levels, and their spread gives the detectable difference.
    In simulations of six levels a 95 % interval excluded 0 in 4 to 6 % of cases where both factors explain the same.
    Where they do not, it covered the difference in 92 to 97 %.
    """
    levels, kept = [*dict.fromkeys(second)], np.asarray(second, dtype=str)

    def difference(cells: NDArray[np.bool_]) -> float:
        own = [[one for one, has in zip(names, cells, strict=True) if has] for names in (first, second)]
        gram, contrast, _ = _design(distances[np.ix_(cells, cells)], *own)
        return float((contrast * gram).sum())

    whole = difference(np.full(len(kept), True))
    return pseudo_values(whole, [difference(kept != str(level)) for level in levels]).tolist()


def _design(distances: Array, first: Sequence[Any], second: Sequence[Any]) -> tuple[Array, Array, list[int]]:
    """Return products of centred cells, weights whose sum with them is the difference, and the numbers of levels."""
    by, n = [np.unique(np.asarray(levels, dtype=str), return_inverse=True)[1] for levels in (first, second)], len(first)
    sizes = [int(levels.max()) + 1 for levels in by]
    if n != sizes[0] * sizes[1] or len(set(zip(*(levels.tolist() for levels in by), strict=True))) != n:
        raise ValueError(f"{n} cells are not all pairs of {sizes[0]} and {sizes[1]} levels, each once")
    middle = np.eye(n) - 1 / n
    gram = -0.5 * middle @ distances**2 @ middle
    weights = [(levels[:, None] == levels[None, :]) / np.bincount(levels)[0] for levels in by]
    return gram, (weights[0] - weights[1]) / (np.trace(gram) or np.nan), sizes  # of cells that do not differ, no shares


def _orders(n: int, draws: int, seed: int) -> NDArray[np.int64]:
    """Return orders of n cells `[orders, n]`: all, or `draws` random orders."""
    if n <= MOST_EXACT:
        return np.array(list(permutations(range(n))))
    draw = np.random.default_rng(seed)
    return np.array([draw.permutation(n) for _ in range(draws)])


def judge_cells(found: Permuted, *, p_holm: float, low: float | None, confidence: float) -> Verdict:
    """Return the verdict on "the first factor explains more than the second", for all data and not these alone.

    `low`: lower end of the interval over data conditions.
    """
    if found.conditions < FEWEST_CONDITIONS:
        few = f"{found.conditions} data conditions decide nothing, at least {FEWEST_CONDITIONS} are needed"
        return Verdict(NO_VERDICT, f"{few}; the least possible p is {found.least:.3f}")
    if not p_holm < 1 - confidence:
        return Verdict("under-powered", f"p after Holm is not below {1 - confidence:.2g}")
    if low is None or low <= 0:
        return Verdict("under-powered", "the interval over data conditions contains 0")
    return Verdict("holds", "over all orders of the cells and over data conditions")
