"""AvgSim of BERT by layer, measured by the published procedure, and its verdicts.

The procedure, of Ethayarajh 2019: random sentences, a random token of each, mean cosine of random pairs of these.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from isoscope.base.errors import InputError
from isoscope.geometry.contextuality import units
from isoscope.geometry.moments import Floats
from isoscope.platform.results.published import agrees, published
from isoscope.platform.statistics.paired import NO_VERDICT, Verdict

PUBLISHED = published(Path(__file__).parent)
SENTENCES, PAIRS = PUBLISHED["sentences"], PUBLISHED["pairs"]
DRAWS, CONFIDENCE = 100, 0.95


def repeated(states: npt.ArrayLike, *, seed: int) -> Floats:
    """Return AvgSim by the published procedure, repeated `[DRAWS, layers]`.

    `states` `[layers, S, D]`: a random token of each sentence. Raises `InputError` for fewer than 1,000 sentences.
    """
    points = np.asarray(states)
    if points.shape[1] < SENTENCES:
        raise InputError(f"text: {points.shape[1]} sentences; the published procedure draws {SENTENCES:,}; give more")
    random = np.random.default_rng(seed)
    chosen = np.array([random.permutation(points.shape[1])[:SENTENCES] for _ in range(DRAWS)])
    drawn = random.integers(SENTENCES, size=(2, DRAWS, PAIRS))
    one, other = (np.take_along_axis(chosen, part, 1) for part in drawn)
    found = np.empty((DRAWS, len(points)))
    for layer, own in enumerate(points):
        unit = units(own)
        for draw in range(DRAWS):
            found[draw, layer] = (unit[one[draw]] * unit[other[draw]]).sum(1).mean()
    return found


def cells(found: Floats, known: Mapping[str, Any], differs: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield a row per layer of `repeated`: layer, published, value, low, high, difference, verdict, reason.

    A single repetition of the procedure lies between low and high with a probability of `CONFIDENCE`. Verdicts are
    those of `agrees`: the interval of the difference includes the rounding and the error of a single repetition, which
    the published value is. *No verdict*: something differs from the published measurement (`differs`, as text).
    """
    draws = len(found)
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, draws - 1)) * (1 + 1 / draws) ** 0.5
    for layer, own in enumerate(found.T):
        value, half = float(own.mean()), reach * float(own.std(ddof=1))
        curve = known["avg_sim"]
        theirs = curve[layer] if layer < len(curve) else None
        difference = None if theirs is None else value - theirs
        verdict = Verdict(NO_VERDICT, "; ".join(differs))
        if not differs and difference is not None:
            verdict = agrees(difference, half + known["rounding"], known["tolerance"])
        row = {"layer": layer, "published": theirs, "value": value, "low": value - half, "high": value + half}
        yield row | {"difference": difference, "verdict": verdict.word, "reason": verdict.reason}
