"""Can a class be told from a profile in groups that the classifier has not seen?"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class LeftOut(NamedTuple):
    """Accuracy on left-out groups."""

    n: int
    groups: int
    accuracy: float
    """Mean over groups."""
    chance: float
    """Mean accuracy over permutations of the classes."""
    p: float
    """(1 + permutations with an accuracy as large) / (1 + permutations)."""


def left_out(
    profiles: NDArray[np.float64],
    classes: Sequence[Any],
    groups: Sequence[Any],
    *,
    permutations: int,
    seed: int = 0,
) -> LeftOut:
    """Return how well the nearest class mean tells the class of profiles `[n, g]`, leaving out one group at a time.

    Features are standardised by the other groups. Permutations exchange the classes within each group. The same as
    scikit-learn's `permutation_test_score` of `StandardScaler` and `NearestCentroid`, for all permutations at once.
    Raises `ValueError` for fewer than two classes or groups.
    """
    known, numbers = np.unique(np.asarray(classes, dtype=str), return_inverse=True)
    apart, group = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    for name, found in (("class", known), ("group", apart)):
        if len(found) < 2:
            raise ValueError(f"a single {name}: nothing to tell apart")
    draw = np.random.default_rng(seed)
    drawn = np.tile(numbers, (permutations + 1, 1))  # the first row has the true classes
    for one in range(len(apart)):
        drawn[1:, group == one] = draw.permuted(drawn[1:, group == one], axis=1)
    scores = np.mean([_correct(profiles, drawn, group == one, len(known)) for one in range(len(apart))], axis=0)
    p = float((scores >= scores[0] - 1e-9).mean())
    return LeftOut(len(profiles), len(apart), float(scores[0]), float(scores[1:].mean()), p)


def _correct(
    profiles: NDArray[np.float64], drawn: NDArray[np.int64], out: NDArray[np.bool_], known: int
) -> NDArray[np.float64]:
    """Return the accuracy on the profiles `out` for each row of classes `[P, n]`."""
    seen, scale = profiles[~out], profiles[~out].std(axis=0)
    points = (profiles - seen.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    members = drawn[:, ~out, None] == np.arange(known)
    with np.errstate(invalid="ignore"):  # a class without members is never the nearest
        means = np.einsum("pnk,ng->pkg", members, points[~out]) / members.sum(axis=1)[:, :, None]
    squares = np.nan_to_num(((points[out][None, :, None] - means[:, None]) ** 2).sum(axis=-1), nan=np.inf)
    accuracy: NDArray[np.float64] = (squares.argmin(axis=-1) == drawn[:, out]).mean(axis=1)
    return accuracy
