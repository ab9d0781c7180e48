"""Two factors of two levels each, over seeds: main effects and interaction."""

from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isoscope.platform.statistics.paired import (
    NO_VERDICT,
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
    scale = float(max(np.abs(values).max() for values in scores.values()))
    found = [_contrast(scores, weights).tolist() for weights in CONTRASTS.values()]
    tests = [paired_t(values, confidence=confidence, scale=scale) for values in found]
    corrected = in_family(tests, confidence=confidence, power=power)
    rows = []
    for (name, weights), test, (p, least) in zip(CONTRASTS.items(), tests, corrected, strict=True):
        two_way = two_way_interval(_contrast(shares, weights), confidence=confidence) if shares else None
        verdict = judge(
            test,
            two_way,
            p_holm=p,
            detectable=least,
            confidence=confidence,
            margin=margin,
            above=_least_above(above, name) if above else (),
        )
        if verdict.word == NO_VERDICT:
            verdict = Verdict(NO_VERDICT, f"two of its combinations are less than {margin:g} above chance")
        rows.append(Effect(name, test, two_way, p, least, verdict))
    return rows


def _contrast(values: Mapping[Levels, NDArray[np.float64]], weights: Mapping[Levels, float]) -> NDArray[np.float64]:
    return sum((weight * values[levels] for levels, weight in weights.items()), start=np.zeros(1))


def _least_above(above: Mapping[Levels, float], name: str) -> tuple[float, float]:
    """Return `above` of two combinations that an effect subtracts: the pair whose better one is nearest to chance."""
    pairs = [
        (above[one], above[other])
        for (one, weight), (other, against) in combinations(CONTRASTS[name].items(), 2)
        if weight * against < 0 and (one[0] == other[0] or one[1] == other[1])
    ]
    return min(pairs, key=max)
