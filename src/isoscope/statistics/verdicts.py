"""Judge a difference between two arms: holds, does not, under-powered."""

from typing import NamedTuple

from isoscope.statistics.paired import FEWEST_SEEDS, Interval, Paired


class Verdict(NamedTuple):
    """The verdict and a short reason."""

    word: str
    reason: str


def judge(
    paired: Paired | None,
    two_way: Interval | None,
    *,
    p_holm: float | None,
    detectable: float | None,
    confidence: float,
    margin: float,
) -> Verdict:
    """Return the verdict on "this arm differs from the reference"; `paired` is None if the arms share no seed.

    - *holds*: p after Holm is below 1 − `confidence`, and the two-way interval excludes 0.
    - *does not*: both intervals lie within ± `margin`, the smallest difference that matters.
    - *under-powered*: neither, or fewer than 3 pairs.

    `detectable`: the minimum detectable effect of Holm's first step over the same family. (*artefact of …* needs a
    control arm and is assigned by a person.)
    """
    pairs = paired.n if paired else 0
    if paired is None or pairs < FEWEST_SEEDS:
        return Verdict("under-powered", f"{pairs} paired seed{'s' * (pairs != 1)}: no interval below {FEWEST_SEEDS}")
    if paired.interval is None or p_holm is None:
        return Verdict("under-powered", "no test: the same difference at every seed, or no number at one")
    if two_way is None:
        return Verdict("under-powered", "no interval over test items")
    significant = p_holm < 1 - confidence
    if significant and not two_way.holds(0):
        small = abs(paired.mean) < margin
        return Verdict("holds", f"but smaller than the margin {margin:g}" if small else "over seeds and test items")
    if paired.interval.within(margin) and two_way.within(margin):
        return Verdict("does not", f"both intervals lie within ± {margin:g}")
    if significant:
        return Verdict("under-powered", "seeds agree, but another test sample could reverse it")
    if detectable is not None and detectable > margin:
        return Verdict("under-powered", f"a true difference of {margin:g} could well go unseen")
    return Verdict("under-powered", f"no clear difference, but more than ± {margin:g} is not ruled out")
