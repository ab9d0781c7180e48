"""Loss change allocation: path integrals of a gradient times a change of weights, along a straight line.

`L(b) − L(a) = ∫₀¹ ∇L(a + sΔ)·Δ ds` with Δ = b − a, so `A_i = Δ_i ∫₀¹ ∇_i L(a + sΔ) ds` allocates the change to the
parameters. Negative helps. Source: Lan et al. 2019 (https://arxiv.org/abs/1909.01440).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from isoscope.objectives import Indices, Numbers

FIRST_SPLITS = {"first_order": 1, "trapezoid": 1, "simpson": 2}
"""Parts of the line at the start: their ends are the nodes of the rule (`first_order`: the start alone)."""
NATS, SHARE = 0.005, 0.01
"""Closure: |ΣA − ΔL| is at most `NATS`, or `SHARE` of the groups' Σ|A| if that is more."""


class Integral(NamedTuple):
    """Integrated quantities, in the order of the integrand's, and the number of parts of the line."""

    values: tuple[Any, ...]
    splits: int


class Composite:
    """Running sums of a composite rule over arrays or tensors: at most two of each, whatever the number of nodes.

    Weights of n parts are `1, 4, 2, 4, …, 1` over 3n (`simpson`) and `1/2, 1, …, 1/2` over n (`trapezoid`).
    """

    def __init__(self, rule: str, count: int) -> None:
        self.rule, self.splits = rule, FIRST_SPLITS[rule]
        self._kept: list[Any] = [0.0] * count
        self._fresh: list[Any] = [0.0] * count

    def add(self, node: float, values: Sequence[Any]) -> None:
        """Add the integrand's values at a node of the current parts."""
        for number, value in enumerate(values):
            if node not in (0.0, 1.0):
                self._fresh[number] = self._fresh[number] + value
            elif self.rule == "trapezoid":
                self._kept[number] = self._kept[number] + 0.5 * value
            elif self.rule == "simpson" or node == 0.0:
                self._kept[number] = self._kept[number] + value

    def refine(self) -> None:
        """Halve every part: the nodes so far become even nodes."""
        times = 2.0 if self.rule == "simpson" else 1.0
        self._kept = [kept + times * fresh for kept, fresh in zip(self._kept, self._fresh, strict=True)]
        self._fresh, self.splits = [0.0] * len(self._kept), 2 * self.splits

    def values(self) -> tuple[Any, ...]:
        """Return the integrals."""
        both = [*zip(self._kept, self._fresh, strict=True)]
        if self.rule == "simpson":
            return tuple((kept + 4.0 * fresh) / (3 * self.splits) for kept, fresh in both)
        return tuple((kept + fresh) / self.splits for kept, fresh in both)


def integrate(
    at: Callable[[float], Sequence[Any]],
    rule: str,
    *,
    change: Callable[[], float] | None = None,
    tolerance: float | None = None,
    carried: float = 0.0,
    allowed: float = np.inf,
    most_splits: int = 16,
) -> Integral:
    """Integrate `at(s)` over s from 0 to 1 by `first_order`, `trapezoid` or `simpson`.

    `at` returns arrays or tensors, which are integrated separately. With `tolerance`, the parts are halved until the
    first array's sum misses `change()` by at most `tolerance`, and all lines so far together, which missed by `carried`
    before it, by at most `allowed`: small gaps of equal sign would add up. Up to `most_splits` parts; no node is
    evaluated twice. 0 and 1 are always evaluated, 0 first; `change` is called after them.
    """
    start = at(0.0)
    sums = Composite(rule, len(start))
    sums.add(0.0, start)
    sums.add(1.0, at(1.0))
    while True:
        for node in range(1, sums.splits, 2):
            sums.add(node / sums.splits, at(node / sums.splits))
        values = sums.values()
        if change is None or tolerance is None:
            return Integral(values, sums.splits)
        gap = float(values[0].sum()) - change()
        closed = abs(gap) <= tolerance and (abs(carried + gap) <= allowed or abs(carried) > allowed)
        if closed or rule == "first_order" or 2 * sums.splits > most_splits:
            return Integral(values, sums.splits)
        sums.refine()


def interval_ends(updates: int, *, dense: int, chords: int) -> Indices:
    """Return the updates at which intervals end: 1, 2, …, `dense`, then `chords` of them, log-spaced up to `updates`.

    Rounding may let neighbours coincide, so a short run has fewer. Each interval begins where the one before it ends,
    the first at 0.
    """
    near = np.arange(1, min(dense, updates) + 1)
    if chords and updates > dense:
        far = np.rint(np.geomspace(max(dense, 1), updates, chords + 1)[1:]).astype(np.int64)
        near = np.union1d(near, far)
    return near.astype(np.int64)


class Estimate(NamedTuple):
    """Allocation of a set to groups `[G]`, in nats, and the same by fold `[F, G]`, whose mean it is."""

    value: Numbers
    folds: Numbers


def over_folds(sums: Numbers, weights: Numbers) -> Estimate:
    """Return the allocation of the set's mean loss from allocations of its folds' summed losses `[F, G]`.

    `weights` `[F]` are the folds' divisors (rows or tokens). The value is `Σ_f sums / Σ_f weights`. A fold's number is
    `value + F · (sums_f − weights_f · value) / Σ weights`: the fold's own mean loss if all weights are equal. The sd of
    these numbers over √F is the standard error of the ratio. Source: Cochran 1977, Sampling Techniques, ch. 6.
    """
    total = float(weights.sum())
    value = sums.sum(0) / total
    return Estimate(value, value + len(sums) * (sums - weights[:, None] * value) / total)


def bound(allocated: Numbers) -> float:
    """Return the largest |ΣA − ΔL| of a closed interval, in nats, for allocations to groups `[G]`."""
    return max(NATS, SHARE * float(np.abs(allocated).sum()))
