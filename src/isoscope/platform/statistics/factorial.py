"""Two factors of two levels each, over seeds: main effects and interaction."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isoscope.platform.statistics.paired import (
    Interval,
    Paired,
    Verdict,
    in_family,
    judge,
    paired_t,
    two_way_interval,
)

Levels = tuple[bool, bool]
"""Whether the first and the second factor are present."""
CONTRASTS: dict[str, dict[Levels, float]] = {
    "first": {(True, True): 0.5, (True, False): 0.5, (False, True): -0.5, (False, False): -0.5},
    "second": {(True, True): 0.5, (True, False): -0.5, (False, True): 0.5, (False, False): -0.5},
    "interaction": {(True, True): 1.0, (True, False): -1.0, (False, True): -1.0, (False, False): 1.0},
}
"""Weights of the four means in each effect."""


class Effect(NamedTuple):
    """An effect of a 2 × 2 design, as `ArmRow` of `platform.results` has it for a difference of arms."""

    name: str
    paired: Paired
    two_way: Interval | None
    p_holm: float | None
    detectable: float | None
    verdict: Verdict


def effects(
    scores: Mapping[Levels, NDArray[np.float64]],
    shares: Mapping[Levels, NDArray[np.float64]] | None,
    *,
    confidence: float,
    power: float,
    margin: float,
    above: Mapping[Levels, float] | None = None,
) -> list[Effect]:
    """Return the main effects and the interaction of `scores` `[seeds]` at the four combinations of levels.

    - A main effect is the mean over the other factor's levels of (present − absent). The interaction is the effect of
      the first factor where the second is present, minus its effect where the second is absent.
    - Each is computed within a seed and tested over seeds (paired t); p is corrected by Holm over the three.
    - `shares` `[seeds, items]`: each test item's share of the score, for the two-way interval; None if there are none.
    - `above`: by how much each combination is better than a constant prediction, if that is known. Where two that an
      effect subtracts are both at chance, their difference is no part of an effect, so the effect has no verdict.

    Source: Box, Hunter and Hunter 2005, ch. 5. Raises `KeyError` if one of the four combinations is missing.
    """
    found = {name: _contrast(scores, weights) for name, weights in CONTRASTS.items()}
    scale = float(max(np.abs(values).max() for values in scores.values()))
    tests = {name: paired_t(values.tolist(), confidence=confidence, scale=scale) for name, values in found.items()}
    corrected = in_family([*tests.values()], confidence=confidence, power=power)
    rows = []
    for (name, test), (p, least) in zip(tests.items(), corrected, strict=True):
        shared = None if shares is None else _contrast(shares, CONTRASTS[name])
        two_way = None if shared is None else two_way_interval(shared, confidence=confidence)
        options: dict[str, Any] = {"p_holm": p, "detectable": least, "confidence": confidence, "margin": margin}
        verdict = judge(test, two_way, **options, above=_least_above(above, name) if above else ())
        rows.append(Effect(name, test, two_way, p, least, verdict))
    return rows


def _contrast(values: Mapping[Levels, NDArray[np.float64]], weights: Mapping[Levels, float]) -> NDArray[np.float64]:
    return sum((weight * values[levels] for levels, weight in weights.items()), start=np.zeros(1))


def _least_above(above: Mapping[Levels, float], name: str) -> tuple[float, float]:
    """Return `above` of the two combinations that an effect subtracts of which the better is the least above chance."""
    second = ((True, True), (True, False)), ((False, True), (False, False))
    first = ((True, True), (False, True)), ((True, False), (False, False))
    pairs = {"first": first, "second": second, "interaction": (*first, *second)}[name]
    return min(((above[one], above[other]) for one, other in pairs), key=max)
