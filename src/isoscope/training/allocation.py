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
    """Running sums of a composite rule over arrays or tensors: at most two of them, whatever the number of nodes.

    Weights of n parts are `1, 4, 2, 4, …, 1` over 3n (`simpson`) and `1/2, 1, …, 1/2` over n (`trapezoid`).
    """

    def __init__(self, rule: str) -> None:
        self.rule, self.splits = rule, FIRST_SPLITS[rule]
        self._kept: Any = 0.0
        self._fresh: Any = 0.0

    def add(self, node: float, value: Any) -> None:
        """Add the integrand's value at a node of the current parts."""
        if node not in (0.0, 1.0):
            self._fresh = self._fresh + value
        elif self.rule == "trapezoid":
            self._kept = self._kept + 0.5 * value
        elif self.rule == "simpson" or node == 0.0:
            self._kept = self._kept + value

    def refine(self) -> None:
        """Halve every part: the nodes so far become even nodes."""
        self._kept = self._kept + (2.0 if self.rule == "simpson" else 1.0) * self._fresh
        self._fresh, self.splits = 0.0, 2 * self.splits

    def value(self) -> Any:
        """Return the integral."""
        if self.rule == "simpson":
            return (self._kept + 4.0 * self._fresh) / (3 * self.splits)
        return (self._kept + self._fresh) / self.splits


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
    start, splits = at(0.0), FIRST_SPLITS[rule]
    sums = [Composite(rule) for _ in start]
    _add(sums, 0.0, start)
    _add(sums, 1.0, at(1.0))
    while True:
        for node in range(1, splits, 2):
            _add(sums, node / splits, at(node / splits))
        values = tuple(one.value() for one in sums)
        if change is None or tolerance is None:
            return Integral(values, splits)
        gap = float(values[0].sum()) - change()
        closed = abs(gap) <= tolerance and (abs(carried + gap) <= allowed or abs(carried) > allowed)
        if closed or rule == "first_order" or 2 * splits > most_splits:
            return Integral(values, splits)
        splits *= 2
        for one in sums:
            one.refine()


def _add(sums: Sequence[Composite], node: float, values: Sequence[Any]) -> None:
    for one, value in zip(sums, values, strict=True):
        one.add(node, value)


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
