"""Families of tests on results pages: p by Holm within a family; each verdict is that of `paired.judge`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from written import CONFIDENCE, between, number

from isoscope.platform.statistics.failed_seed import robust
from isoscope.platform.statistics.paired import (
    Interval,
    Paired,
    Verdict,
    in_family,
    judge,
    paired_t,
    two_way_interval,
)

POWER, MARGIN = 0.8, 0.01
LEAST = 0.001
"""A p that would be written as 0 is written as below this."""
VERDICT = ("seeds", "mean", "over seeds", "over seeds and sentences", "p (Holm)", "detectable", "verdict")


class Tested(NamedTuple):
    """A number by seed that is tested against 0.

    `two_way`: interval over seeds and sentences, of a mean over sentences (`items`). `above`: by how much both sides of
    a difference are above chance, if they have a chance level. `scale`: the largest magnitude of the subtracted values;
    differences of rounding are equal.
    """

    values: Sequence[float]
    two_way: Interval | None = None
    above: Sequence[float] = ()
    margin: float = MARGIN
    scale: float = 0.0
    items: bool = True


def of_items(values: np.ndarray, **about: Any) -> Tested:
    """Return what is tested of numbers by seed and sentence `[seeds, sentences]`."""
    return Tested([*values.mean(1)], two_way_interval(values, confidence=CONFIDENCE), **about)


def apart(one: Mapping[int, float], other: Mapping[int, float], **about: Any) -> Tested:
    """Return one number by seed minus another, over the seeds that both have."""
    seeds = [seed for seed in one if seed in other]
    scale = max(abs(side[seed]) for side in (one, other) for seed in seeds)
    return Tested([one[seed] - other[seed] for seed in seeds], scale=scale, **about)


def verdicts(
    family: Sequence[Tested], write: Callable[..., str] = number, *, claims: bool = True
) -> Iterator[tuple[str, ...]]:
    """Yield the cells `VERDICT` of each number of a family.

    `claims`: they say that a number is above 0, so that a clearly negative number is the opposite.
    """
    tests = [paired_t([*one.values], confidence=CONFIDENCE, scale=one.scale) for one in family]
    corrected = in_family(tests, confidence=CONFIDENCE, power=POWER)
    for one, test, (p, detectable) in zip(family, tests, corrected, strict=True):
        options: dict[str, Any] = {"margin": one.margin, "items": one.items, "above": one.above}
        verdict = judge(test, one.two_way, p_holm=p, detectable=detectable, confidence=CONFIDENCE, **options)
        before = "the opposite " * (claims and verdict.word == "holds" and test.mean < 0)
        *cells, word = cells_of(test, one.two_way, p, detectable, verdict, write)
        yield *cells, before + word + beside(one.values)


def cells_of(
    paired: Paired,
    two_way: Interval | None,
    p: float | None,
    detectable: float | None,
    verdict: Verdict,
    write: Callable[..., str] = number,
) -> tuple[str, ...]:
    """Return the cells `VERDICT` of a number that has been judged."""
    about = (str(paired.n), write(paired.mean, sign=True), between(paired.interval, write), between(two_way, write))
    small = p is not None and p < LEAST / 2
    shown = f"< {write(LEAST)}" if small else write(p)
    return *about, shown, write(detectable), f"*{verdict.word}*: {verdict.reason}"


def beside(differences: Sequence[float]) -> str:
    """Return the median and its interval (or range), if a seed lies apart; else nothing."""
    found = robust(differences, confidence=CONFIDENCE)
    if found is None or found.apart is None:
        return ""
    kind, (low, high) = ("interval", found.interval) if found.interval else ("range", found.range)
    said = f"; one seed apart ({found.farthest:+.3f}): median {found.median:+.3f}, {kind} [{low:+.3f}, {high:+.3f}]"
    return said.replace("-", "−")
