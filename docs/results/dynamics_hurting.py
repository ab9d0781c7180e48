"""What hurts, how often and until when, next to the published table and claims, for dynamics.md."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from dynamics_claims import MARGIN, POWER, bounds
from dynamics_stored import COMPONENTS, CONFIDENCE, Lines, called, head, number, order, stored
from dynamics_time import halves

from isoscope.statistics.paired import in_family, judge, paired_t
from isoscope.statistics.rank_agreement import agreement
from isoscope.studies.dynamics.hurting_counts import COUNTED, PUBLISHED, WARMUP
from isoscope.studies.dynamics.learning import TRAINED
from isoscope.studies.dynamics.published_ranks import judged as ranks_judged

KEYS_AND_QUERIES = ("query", "key")
COUNTS = ("updates", "chords")
UPDATES = 125_000
"""Published updates of a training."""
ARMS = ("masked-additive", "causal-additive", "translation-additive")


class Claim(NamedTuple):
    """A published claim as a number that it says is above 0."""

    text: str
    arm: str
    counted: str
    published: float | None
    """The number in the published table, if it has it."""
    values: Sequence[float]
    """By seed."""


def more_often(counts: Mapping[str, float], names: Sequence[str]) -> float:
    """Return how much more often than not one of `names` has the larger count than another component: −.5 to .5.

    The share of pairs, one component of `names` and one of the others, in which the first is larger; a tie is half;
    minus ½. It compares ranks, since counts depend on the number of updates and on the estimator.
    """
    own, others = ([value for name, value in counts.items() if (name in names) is side] for side in (True, False))
    return float(np.mean([(one > other) + 0.5 * (one == other) for one in own for other in others])) - 0.5


def claims() -> Iterator[Claim]:
    """Yield the claims about what hurts, and about the order in which the parts of MT learn."""
    table = stored("own", "hurting")
    table = table[table["unit"] == "component"]
    for arm in ARMS:
        objective = PUBLISHED[arm.partition("-")[0]]
        names = list(objective.counts)
        for counted in COUNTS:
            own = table[(table["arm"] == arm) & (table["counted"] == counted) & table["component"].isin(names)]
            of_seeds = [of_seed.set_index("component") for _, of_seed in own.groupby("seed")]
            if arm == "masked-additive":
                for text, column, known in (
                    ("keys and queries hurt more often than other components", "hurts", objective.counts),
                    ("keys and queries hurt later than other components", "last", None),
                ):
                    published = known and more_often(known, KEYS_AND_QUERIES)
                    values = [more_often(one[column].to_dict(), KEYS_AND_QUERIES) for one in of_seeds]
                    yield Claim(text, arm, counted, published, values)
            warmup = stored("own", "hurting_published").query("arm == @arm")["warmup"].iloc[0]
            updates = stored("own", "learned").query("arm == @arm")["updates"].iloc[0]
            after = arm == "masked-additive"
            text = "components hurt after the warm-up" if after else "components hurt only in the warm-up"
            sign = 1 if after else -1
            values = [float(sign * (one["last"].max() - warmup) / updates) for one in of_seeds]
            yield Claim(text, arm, counted, sign * (objective.last - WARMUP) / UPDATES, values)
    half = halves()[ARMS[2]] / updates
    for text, later, earlier in (
        ("cross-attention learns later than the decoder", "cross", "dec"),
        ("the encoder learns later than cross-attention", "enc", "cross"),
    ):
        yield Claim(text, ARMS[2], "set", None, list(half[later] - half[earlier]))


def claims_hurting() -> Lines:
    """Yield the claims of `claims`, each with its interval over seeds and its verdict; p by Holm over the table."""
    found = list(claims())
    tests = [paired_t(list(claim.values), confidence=CONFIDENCE) for claim in found]
    family = in_family(tests, confidence=CONFIDENCE, power=POWER)
    columns = ("published", "seeds", "mean", "over seeds", "p (Holm)", "detectable", "verdict")
    yield from head("claim", "counted", *columns, left=2)
    for claim, test, (p, detectable) in zip(found, tests, family, strict=True):
        options: dict[str, Any] = {"confidence": CONFIDENCE, "margin": MARGIN, "items": False}
        verdict = judge(test, None, p_holm=p, detectable=detectable, **options)
        opposite = "the opposite " * (verdict.word == "holds" and test.mean < 0)
        published = "–" if claim.published is None else number(claim.published, 3, True)
        chances = (number(np.nan if one is None else one) for one in (p, detectable))
        cells = (published, str(test.n), number(test.mean, 3, True), bounds(test.interval), *chances)
        word = f"{opposite}*{verdict.word}*: {verdict.reason}"
        yield f"| {called(claim.arm)}: {claim.text} | {claim.counted} | {' | '.join(cells)} | {word} |"


def hurting(part: str) -> Lines:
    """Yield per component: the published count, and how often it hurts here, by what is counted."""
    table = stored(part, "hurting")
    table = table[table["unit"] == "component"].groupby("component")
    arms = sorted(set(stored(part, "learned")["arm"]), key=order)
    counted = [name for name in COUNTED if (stored(part, "hurting")["counted"] == name).any()]
    columns = [f"{called(arm)}: published" if name == "" else name for arm in arms for name in ("", *counted)]
    yield from head("component", *columns)
    for component in COMPONENTS:
        cells = []
        for arm in arms:
            known = PUBLISHED[arm.partition("-")[0]].counts.get(component)
            cells.append("–" if known is None else f"{known:,}")
            own = table.get_group(component)
            cells += [_hurts(own[(own["arm"] == arm) & (own["counted"] == name)]) for name in counted]
        yield f"| {component} | {' | '.join(cells)} |"


def _hurts(own: pd.DataFrame) -> str:
    """Format the share of cases that hurt and, with folds, that surely hurt, each with what noise would give."""
    if own.empty:
        return "–"
    mean = own[["cases", "hurts", "surely", "hurts_by_noise", "surely_by_noise"]].mean()
    share = {name: 100 * mean[name] / mean["cases"] for name in mean.index}
    text = f"{share['hurts']:.1f} %"
    if np.isnan(mean["surely"]):
        return text
    return f"{text} ({share['hurts_by_noise']:.0f}); {share['surely']:.1f} % ({share['surely_by_noise']:.1f})"


def ranks(part: str) -> Lines:
    """Yield the agreement of the components' ranks, by count, with the published ranks, and the last that hurts.

    τ, its exact p and the verdict are of the mean counts over seeds, as `isoscope reproduce dynamics` gives them.
    """
    table, hurting = stored(part, "hurting_published"), stored(part, "hurting")
    hurting = hurting[hurting["unit"] == "component"]
    columns = ("runs", "Kendall's τ", "by seed", "p", "verdict", "last that hurts", "warm-up", "published last")
    yield from head("arm", "counted", *columns, left=2)
    for arm in ARMS:
        published = PUBLISHED[arm.partition("-")[0]]
        for counted in COUNTED:
            own = table[(table["arm"] == arm) & (table["counted"] == counted)]
            if own.empty:
                continue
            of = hurting[(hurting["arm"] == arm) & (hurting["counted"] == counted)]
            mean = of.groupby("component")["hurts"].mean()
            values = np.array([[mean[name], count] for name, count in published.counts.items()], dtype=float)
            found = agreement(*values.T)
            row = {"word": TRAINED, "n": len(own), "components": found.n}
            word, reason = ranks_judged(
                row | {name: getattr(found, name) for name in ("tau", "p", "least")}, CONFIDENCE
            )
            cells = (
                *(str(len(own)), number(found.tau, 2, True), ", ".join(number(tau, 2, True) for tau in own["tau"])),
                *(number(found.p), f"*{word}*: {reason}", ", ".join(f"{value:,}" for value in own["last"])),
                *(f"{own['warmup'].iloc[0]:,}", f"{own['published_last'].iloc[0]:,} of {UPDATES:,}"),
            )
            yield f"| {called(arm)} | {counted} | {' | '.join(cells)} |"
