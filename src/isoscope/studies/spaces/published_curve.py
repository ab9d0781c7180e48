"""Verdicts on AvgSim of BERT by layer, next to the curve that the code of Ethayarajh 2019 recorded.

Source: bert/embedding_space_stats.json of https://github.com/kawine/contextual. Its procedure is repeated: 1,000 random
sentences, a random token of each (word pieces and punctuation, no special token), mean cosine of 1,000 random pairs of
these, drawn with replacement.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from isoscope.base.errors import InputError
from isoscope.geometry.contextuality import units
from isoscope.geometry.moments import Floats
from isoscope.studies.published import FAIL, NO_VERDICT, PASS, UNDERPOWERED, Reproduced, counted


class Published(NamedTuple):
    """A published curve: what it was measured on, and its values for layers 0 (after the embedding block) … L."""

    checkpoints: tuple[str, ...]
    """Hub names of the checkpoint."""
    config: Mapping[str, Any]
    """Entries of its config.json that tell it from others."""
    data: Mapping[str, int]
    """Hub names of the data sets whose split `test` has the sentences, and its pairs."""
    avg_sim: tuple[float, ...]


BERT = Published(
    ("google-bert/bert-base-cased", "bert-base-cased"),
    {"model_type": "bert", "vocab_size": 28996, "hidden_size": 768, "num_hidden_layers": 12},
    {
        "mteb/sts12-sts": 3108,
        "mteb/sts13-sts": 1500,
        "mteb/sts14-sts": 3750,
        "mteb/sts15-sts": 3000,
        "mteb/sts16-sts": 1186,
    },
    (0.105, 0.168, 0.219, 0.245, 0.327, 0.377, 0.42, 0.398, 0.399, 0.484, 0.561, 0.675, 0.477),
)
"""The sentences are those of the scored pairs of SemEval STS 2012 to 2016; which pairs exactly was not published."""
SENTENCES, PAIRS, ROUNDING = 1000, 1000, 0.0005
TOLERANCE = 0.05
"""Difference up to which a layer agrees: a little less than the curve's median step from layer to layer."""
DRAWS, CONFIDENCE = 100, 0.95


class LayerCell(NamedTuple):
    """A layer's published AvgSim and ours."""

    layer: int
    published: float | None
    value: float
    low: float
    high: float
    """Between these a single repetition of the procedure lies with a probability of `CONFIDENCE`."""
    difference: float | None
    """Our value minus the published value."""
    verdict: str
    reason: str


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


def cells(found: Floats, known: Published, differs: Sequence[str]) -> Iterator[LayerCell]:
    """Yield a cell per layer of `repeated`. `differs`: what is not as in the published measurement, as text.

    - *no verdict*: something differs.
    - *pass*, *fail*: the interval of the difference is within the tolerance, or outside it; it includes the rounding
      and the error of a single repetition, which the published value is.
    - *under-powered*: neither.
    """
    draws = len(found)
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, draws - 1)) * (1 + 1 / draws) ** 0.5
    for layer, own in enumerate(found.T):
        value, half = float(own.mean()), reach * float(own.std(ddof=1))
        published = known.avg_sim[layer] if layer < len(known.avg_sim) else None
        difference = None if published is None else value - published
        verdict = NO_VERDICT, "; ".join(differs)
        if not differs and difference is not None:
            verdict = _verdict(abs(difference), half + ROUNDING)
        yield LayerCell(layer, published, value, value - half, value + half, difference, *verdict)


def _verdict(difference: float, half: float) -> tuple[str, str]:
    if difference - half > TOLERANCE:
        return FAIL, f"more than {TOLERANCE:.2g} from the published value"
    if difference + half <= TOLERANCE:
        return PASS, f"within {TOLERANCE:.2g} of the published value"
    return UNDERPOWERED, f"the interval does not decide whether it is within {TOLERANCE:.2g}"


def reproduced(found: Floats, known: Published, differs: Sequence[str]) -> Reproduced:
    """Return the comparison of `repeated` with a published curve; `differs` as in `cells`."""
    rows = [*cells(found, known, differs)]
    lines = [f"{'layer':>5}  {'published':>9}  {'ours':>6}  {'interval':>14}  verdict"]
    for row in rows:
        published = "–" if row.published is None else f"{row.published:.3f}"
        interval = f"[{row.low:.3f}, {row.high:.3f}]"
        lines.append(f"{row.layer:>5}  {published:>9}  {row.value:>6.3f}  {interval:>14}  {row.verdict}")
    lines += [f"{reason}." for reason in dict.fromkeys(row.reason for row in rows if row.verdict == NO_VERDICT)]
    said = counted([row.verdict for row in rows])
    failed = any(row.verdict == FAIL for row in rows)
    return Reproduced([row._asdict() for row in rows], "\n".join([*lines, said]), failed)
