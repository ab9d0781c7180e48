"""What hurts, how often and until when, next to the published table and claims, for dynamics.md."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from dynamics_claims import ARMS, verdict_cells
from dynamics_stored import COMPONENTS, CONFIDENCE, Lines, called, head, number, order, stored
from dynamics_time import halves

from isoscope.platform.statistics.rank_agreement import agreement
from isoscope.studies.dynamics.hurting_counts import COUNTED, PUBLISHED
from isoscope.studies.dynamics.published_ranks import with_verdicts

VALUES = PUBLISHED["values"]
KEYS_AND_QUERIES = ("query", "key")
COUNTS = ("updates", "chords")
UPDATES = 125_000
"""Published updates of a training."""
RANKS, TIME, SURELY = 0.1, 0.01, 0.01
"""Margins: one of ten pairs of components; a hundredth of training; a hundredth of the intervals."""


class Order(NamedTuple):
    """A published claim about order or time, as a number that it says is above 0."""

    text: str
    arm: str
    counted: str
    published: float | None
    """The number in the published table, if it has it."""
    values: Sequence[float]
    """By seed."""
    margin: float


def more_often(counts: Mapping[str, float], names: Sequence[str]) -> float:
    """Return how much more often than not one of `names` has the larger count than another component: −.5 to .5.

    The share of pairs, one component of `names` and one of the others, in which the first is larger; a tie is half;
    minus ½. It compares ranks, since counts depend on the number of updates and on the estimator.
    """
    own, others = ([value for name, value in counts.items() if (name in names) is side] for side in (True, False))
    return float(np.mean([(one > other) + 0.5 * (one == other) for one in own for other in others])) - 0.5


def keys_and_queries() -> Iterator[Order]:
    """Yield whether keys and queries of MLM hurt more often and later than the other published components."""
    published = VALUES["masked"]["counts"]
    for counted in COUNTS:
        of_seeds = _of_seeds("masked-additive", counted, list(published))
        columns = (
            ("keys and queries hurt more often", "hurts", more_often(published, KEYS_AND_QUERIES)),
            ("keys and queries hurt later", "last", None),
        )
        # Noise alone puts the last positive interval of the fixed set near the end of training.
        for text, column, known in columns if counted == "updates" else columns[:1]:
            values = [more_often(one[column].to_dict(), KEYS_AND_QUERIES) for one in of_seeds]
            yield Order(text, "masked-additive", counted, known, values, RANKS)


def ends() -> Iterator[Order]:
    """Yield whether hurting ends with the warm-up (CLM, MT) or continues (MLM), of published and of all components.

    By the minibatch estimator only: noise alone puts the last positive interval of the fixed set near the end.
    """
    for arm in ARMS:
        published = VALUES[arm.partition("-")[0]]
        after = arm == "masked-additive"
        sign = 1 if after else -1
        text = "hurt after the warm-up" if after else "hurt only in the warm-up"
        known = sign * (published["last"] - PUBLISHED["warmup"]) / UPDATES
        warmup, updates = _first("hurting_published", arm, "warmup"), _first("learned", arm, "updates")
        for whose, names in (("published components", list(published["counts"])), ("all components", None)):
            last = [float(one["last"].max()) for one in _of_seeds(arm, "updates", names)]
            values = [sign * (one - warmup) / updates for one in last]
            yield Order(f"{whose} {text}", arm, "updates", None if names is None else known, values, TIME)


def surely() -> Iterator[Order]:
    """Yield whether published components surely hurt in more of the fixed set's intervals than by noise alone.

    Single updates are the first 16 here, in which no component hurts: `hurting_dense` has 500.
    """
    for arm in ARMS:
        values = []
        for one in _of_seeds(arm, "chords", list(VALUES[arm.partition("-")[0]]["counts"])):
            values.append(float((one["surely"].sum() - one["surely_by_noise"].sum()) / one["cases"].sum()))
        text = "published components surely hurt more often than by noise"
        yield Order(text, arm, "chords", None, values, SURELY)


def chain() -> Iterator[Order]:
    """Yield the order in which the parts of MT have half of their allocation."""
    arm = "translation-additive"
    half = halves()[arm] / _first("learned", arm, "updates")
    for text, later, earlier in (
        ("cross-attention learns later than the decoder", "cross", "dec"),
        ("the encoder learns later than cross-attention", "enc", "cross"),
    ):
        yield Order(text, arm, "set", None, list(half[later] - half[earlier]), TIME)


def _of_seeds(arm: str, counted: str, names: Sequence[str] | None) -> list[pd.DataFrame]:
    """Return a table by component for each seed; `names`: only these components."""
    table = stored("own", "hurting")
    own = table[(table["unit"] == "component") & (table["arm"] == arm) & (table["counted"] == counted)]
    own = own if names is None else own[own["component"].isin(names)]
    return [of_seed.set_index("component") for _, of_seed in own.groupby("seed")]


def _first(table: str, arm: str, column: str) -> int:
    rows = stored("own", table)
    return int(rows.loc[rows["arm"] == arm, column].iloc[0])


def claims_hurting() -> Lines:
    """Yield these claims, each with its interval over seeds and its verdict; p by Holm over the table."""
    found = [*keys_and_queries(), *ends(), *surely(), *chain()]
    columns = ("published", "seeds", "mean", "over seeds", "p (Holm)", "detectable", "verdict")
    yield from head("claim", "counted", *columns, left=2)
    verdicts = verdict_cells([claim.values for claim in found], [claim.margin for claim in found])
    for claim, (about, rest) in zip(found, verdicts, strict=True):
        published = "–" if claim.published is None else number(claim.published, 3, True)
        cells = (published, *about, *rest)
        yield f"| {called(claim.arm)}: {claim.text} | {claim.counted} | {' | '.join(cells)} |"


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
            known = VALUES[arm.partition("-")[0]]["counts"].get(component)
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
    if np.isnan(mean["surely"]):
        return f"{share['hurts']:.2f} %"
    surely = f"{share['surely']:.1f} % ({share['surely_by_noise']:.1f})"
    return f"{share['hurts']:.1f} % ({share['hurts_by_noise']:.0f}); {surely}"


def ranks(part: str) -> Lines:
    """Yield the agreement of the components' ranks, by count, with the published ranks, and the last that hurts.

    τ, its exact p and the verdict are of the mean counts over seeds, as `isoscope reproduce dynamics` gives them.
    """
    table, hurting = stored(part, "hurting_published"), stored(part, "hurting")
    hurting = hurting[hurting["unit"] == "component"]
    rows = []
    for arm in ARMS:
        published = VALUES[arm.partition("-")[0]]
        for counted in COUNTED:
            own = table[(table["arm"] == arm) & (table["counted"] == counted)]
            if own.empty:
                continue
            of = hurting[(hurting["arm"] == arm) & (hurting["counted"] == counted)]
            mean = of.groupby("component")["hurts"].mean()
            values = np.array([[mean[name], count] for name, count in published["counts"].items()], dtype=float)
            found = agreement(*values.T)
            about = {"word": own["word"].iloc[0], "n": len(own), "components": found.n, "own": own}
            rows.append(found._asdict() | about | {"arm": arm, "counted": counted})
    columns = ("runs", "Kendall's τ", "by seed", "p (Holm)", "verdict", "last that hurts", "warm-up", "published last")
    yield from head("arm", "counted", *columns, left=2)
    for row in with_verdicts(pd.DataFrame(rows), CONFIDENCE).to_dict("records"):
        own = row["own"]
        cells = (
            *(str(len(own)), number(row["tau"], 2, True), ", ".join(number(tau, 2, True) for tau in own["tau"])),
            *(
                number(row["p_holm"]),
                f"*{row['verdict']}*: {row['reason']}",
                ", ".join(f"{value:,}" for value in own["last"]),
            ),
            *(f"{own['warmup'].iloc[0]:,}", f"{own['published_last'].iloc[0]:,} of {UPDATES:,}"),
        )
        yield f"| {called(row['arm'])} | {row['counted']} | {' | '.join(cells)} |"
