"""Published claims and ranks of what hurts, how often and until when; for dynamics.md."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from dynamics_claims import ARMS
from dynamics_shares import called, of_part
from judged import MARGIN, VERDICT, Tested, verdicts
from written import CONFIDENCE, Table, number

from isoscope.platform.statistics.rank_agreement import agreement
from isoscope.studies.dynamics.hurting_counts import COUNTED, PUBLISHED, with_verdicts

VALUES = PUBLISHED["values"]
KEYS_AND_QUERIES = ("query", "key")
UPDATES = 125_000
"""Published updates of a training."""
RANKS = 0.1
"""Margin of ranks: one of ten pairs of components. Of times and counts it is a hundredth of training or intervals."""
BEYOND = 0.2
"""Share of its sum over training by which a part's cumulative allocation may leave the span from 0 to this sum."""


class Order(NamedTuple):
    """A published claim about order or time, as a number by seed that it says is above 0.

    `published`: the number in the published table, if it has it.
    """

    text: str
    arm: str
    counted: str
    values: Sequence[float]
    published: float | None = None
    margin: float = MARGIN


def more_often(counts: Mapping[str, float], of: Sequence[str]) -> float:
    """Return how much more often than not a component of `of` has the larger count than another: −.5 to .5.

    The share of pairs, a component of `of` and another, in which the first is larger; a tie is half; minus ½. It
    compares ranks, since counts depend on the number of updates and on the estimator.
    """
    own, others = ([value for name, value in counts.items() if (name in of) is side] for side in (True, False))
    return float(np.mean([(one > other) + 0.5 * (one == other) for one in own for other in others])) - 0.5


def keys_and_queries() -> Iterator[Order]:
    """Yield whether keys and queries of MLM hurt more often and later than the other published components.

    Later by the minibatch estimator alone: noise puts the last positive interval of the fixed set near the end.
    """
    published = VALUES["masked"]["counts"]
    known = more_often(published, KEYS_AND_QUERIES)
    for counted, text, column in (
        ("updates", "more often", "hurts"), ("updates", "later", "last"), ("chords", "more often", "hurts"),
    ):  # fmt: skip
        of_seeds = _of_seeds(ARMS[0], counted, [*published])
        values = [more_often(one[column].to_dict(), KEYS_AND_QUERIES) for one in of_seeds]
        before = known if column == "hurts" else None
        yield Order(f"keys and queries hurt {text}", ARMS[0], counted, values, before, RANKS)


def ends() -> Iterator[Order]:
    """Yield whether hurting ends with the warm-up (CLM, MT) or continues (MLM), of published and of all components.

    By the minibatch estimator only: noise alone puts the last positive interval of the fixed set near the end.
    """
    for arm in ARMS:
        published = VALUES[arm.partition("-")[0]]
        sign, text = (1, "hurt after the warm-up") if arm == ARMS[0] else (-1, "hurt only in the warm-up")
        known = sign * (published["last"] - PUBLISHED["warmup"]) / UPDATES
        warmup, updates = _first("hurting_published", arm, "warmup"), _first("learned", arm, "updates")
        for whose, of, before in (("published", [*published["counts"]], known), ("all", None, None)):
            last = [float(one["last"].max()) for one in _of_seeds(arm, "updates", of)]
            values = [sign * (one - warmup) / updates for one in last]
            yield Order(f"{whose} components {text}", arm, "updates", values, before)


def surely() -> Iterator[Order]:
    """Yield whether published components surely hurt in more of the fixed set's intervals than by noise alone.

    Single updates are the first 16 here, in which no component hurts.
    """
    for arm in ARMS:
        of_seeds = _of_seeds(arm, "chords", [*VALUES[arm.partition("-")[0]]["counts"]])
        sums = [one[["surely", "surely_by_noise", "cases"]].sum() for one in of_seeds]
        values = [float((one["surely"] - one["surely_by_noise"]) / one["cases"]) for one in sums]
        yield Order("published components surely hurt more often than by noise", arm, "chords", values)


def chain() -> Iterator[Order]:
    """Yield the order in which the parts of MT have half of their allocation."""
    half = halves()[ARMS[2]] / _first("learned", ARMS[2], "updates")
    for text, later, earlier in (
        ("cross-attention learns later than the decoder", "cross", "dec"),
        ("the encoder learns later than cross-attention", "enc", "cross"),
    ):
        yield Order(text, ARMS[2], "set", [*(half[later] - half[earlier])])


def _of_seeds(arm: str, counted: str, of: Sequence[str] | None) -> list[pd.DataFrame]:
    """Return a table by component for each seed; `of`: only these components."""
    table = of_part("own", "hurting")
    own = table[(table["unit"] == "component") & (table["arm"] == arm) & (table["counted"] == counted)]
    own = own if of is None else own[own["component"].isin(of)]
    return [of_seed.set_index("component") for _, of_seed in own.groupby("seed")]


def _first(table: str, arm: str, column: str) -> int:
    rows = of_part("own", table)
    return int(rows.loc[rows["arm"] == arm, column].iloc[0])


def claims_hurting() -> Table:
    """Return these claims with their verdicts over seeds; a family."""
    claims = [*keys_and_queries(), *ends(), *surely(), *chain()]
    cells = verdicts([Tested(one.values, margin=one.margin, items=False) for one in claims])
    rows = [
        (f"{called(one.arm)}: {one.text}", one.counted, number(one.published, 3, True), *own[:3], *own[4:])
        for one, own in zip(claims, cells, strict=True)
    ]
    return Table(("claim", "counted", "published", *VERDICT[:3], *VERDICT[4:]), rows)


def ranks(part: str) -> Table:
    """Return the agreement of the components' ranks, by count, with the published ranks, and the last that hurts.

    τ, its exact p and the verdict are of the mean counts over seeds, as `isoscope reproduce dynamics` gives them.
    """
    hurts = of_part(part, "hurting").query("unit == 'component'").groupby(["arm", "counted", "component"])["hurts"]
    mean, found, runs = hurts.mean(), [], of_part(part, "hurting_published").groupby(["arm", "counted"], sort=False)
    for (arm, counted), own in sorted(runs, key=lambda one: (ARMS.index(one[0][0]), [*COUNTED].index(one[0][1]))):
        counts = VALUES[arm.partition("-")[0]]["counts"]
        values = np.array([[mean[arm, counted, name], count] for name, count in counts.items()], dtype=float)
        about = {"arm": arm, "counted": counted, "word": own["word"].iloc[0], "own": own}
        both = agreement(*values.T)
        found.append(both._asdict() | about | {"components": both.n, "n": len(own)})
    rows = []
    for row in with_verdicts(pd.DataFrame(found), CONFIDENCE).to_dict("records"):
        own, verdict = row["own"], f"*{row['verdict']}*: {row['reason']}"
        by_seed = ", ".join(number(tau, 2, True) for tau in own["tau"])
        last = ", ".join(f"{value:,}" for value in own["last"])
        warmup, end = f"{own['warmup'].iloc[0]:,}", f"{own['published_last'].iloc[0]:,} of {UPDATES:,}"
        cells = (row["n"], number(row["tau"], 2, True), by_seed, number(row["p_holm"]), verdict, last, warmup, end)
        rows.append((called(row["arm"]), row["counted"], *cells))
    columns = ("runs", "Kendall's τ", "by seed", "p (Holm)", "verdict", "last that hurts", "warm-up", "published last")
    return Table(("arm", "counted", *columns), rows)


def halves() -> dict[str, pd.DataFrame]:
    """Return arm → the update by which a component or stack has half of its allocation: a row per seed.

    NaN where the cumulative allocation exceeds its end by more than `BEYOND`: such a part gains and then loses, so
    "half" has no meaning.
    """
    found: dict[str, dict[str, dict[int, float]]] = {}
    for (arm, group, seed), own in of_part("own", "course").groupby(["arm", "group", "seed"], sort=False):
        course = own.sort_values("update")
        reached = np.concatenate([[0.0], course["cumulative"] / course["cumulative"].iloc[-1]])
        at = int(np.argmax(reached >= 0.5))
        updates = np.concatenate([[0.0], course["update"]])
        half = np.interp(0.5, reached[at - 1 : at + 1], updates[at - 1 : at + 1])
        once = reached.max() <= 1 + BEYOND and reached.min() >= -BEYOND
        found.setdefault(arm, {}).setdefault(group, {})[int(seed)] = half if once else np.nan
    return {arm: pd.DataFrame(own) for arm, own in found.items()}
