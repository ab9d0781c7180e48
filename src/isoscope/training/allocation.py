"""Loss change allocation: path integrals of a gradient times a change of weights, along a straight line.

`L(b) − L(a) = ∫₀¹ ∇L(a + sΔ)·Δ ds` with Δ = b − a, so `A_i = Δ_i ∫₀¹ ∇_i L(a + sΔ) ds` allocates the change to the
parameters. Negative helps. Source: Lan et al. 2019 (https://arxiv.org/abs/1909.01440).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from isoscope.objectives import Indices, Numbers


class Rule(NamedTuple):
    """A composite rule over n parts of [0, 1], `splits` of them at the start.

    Its sum is `(start · f(0) + end · f(1) + odd · Σ f(odd nodes) + even · Σ f(even nodes)) / (scale · n)`.
    """

    splits: int
    start: float
    end: float
    odd: float = 0.0
    even: float = 0.0
    scale: float = 1.0


RULES = {
    "first_order": Rule(1, 1.0, 0.0),
    "trapezoid": Rule(1, 0.5, 0.5, 1.0, 1.0),
    "simpson": Rule(2, 1.0, 1.0, 4.0, 2.0, 3.0),
}
NATS, SHARE = 0.005, 0.01
"""Closure: |ΣA − ΔL| is at most `NATS`, or `SHARE` of the groups' Σ|A| if that is more."""
ENDS_SUFFICE = 0.25
"""Share of the tolerance that the trapezoid over a line's ends may miss in place of Simpson's rule: such a line is so
little curved that single groups' numbers hardly differ, too."""


class Integral(NamedTuple):
    """Integrated quantities, in the order of the integrand's, and the number of parts of the line."""

    values: tuple[Any, ...]
    splits: int


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
    evaluated twice. 0 and 1 are always evaluated, 0 first; `change` is called after them. With `tolerance`, `simpson`
    takes the trapezoid over 0 and 1, a single part, if that misses by at most `ENDS_SUFFICE` of the tolerance.
    """
    weights = RULES[rule]
    splits = weights.splits

    def closes(found: Integral, share: float = 1.0) -> bool:
        if change is None or tolerance is None:
            return False
        gap = float(found.values[0].sum()) - change()
        return abs(gap) <= share * tolerance and (abs(carried + gap) <= allowed or abs(carried) > allowed)

    kept = [weights.start * one + weights.end * other for one, other in zip(at(0.0), at(1.0), strict=True)]
    if rule == "simpson" and closes(chord := Integral(tuple(one / 2 for one in kept), 1), ENDS_SUFFICE):
        return chord
    while True:
        fresh: list[Any] = [0.0] * len(kept)
        for node in range(1, splits, 2):
            fresh = [one + other for one, other in zip(fresh, at(node / splits), strict=True)]
        both = [*zip(kept, fresh, strict=True)]
        found = Integral(tuple((one + weights.odd * new) / (weights.scale * splits) for one, new in both), splits)
        if change is None or tolerance is None or 2 * splits > most_splits or closes(found):
            return found
        kept, splits = [one + weights.even * new for one, new in both], 2 * splits  # these nodes are even from now on


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


def bound(allocated: Numbers) -> Numbers:
    """Return the largest |ΣA − ΔL| of closed intervals `[…]`, in nats, for allocations to groups `[…, G]`."""
    return np.maximum(NATS, SHARE * np.abs(allocated).sum(-1))
