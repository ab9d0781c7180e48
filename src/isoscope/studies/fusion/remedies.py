"""Why circular convolution fails: remedies that keep magnitudes, that keep identity readable, or both (2 × 2)."""

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from isoscope.base.view import View
from isoscope.fusions.fft import EARLIER
from isoscope.platform.figures.interval_form import Intervals
from isoscope.platform.figures.matrix_form import Matrix
from isoscope.platform.results.paired_comparison import Arms, above_constant, metrics_of
from isoscope.platform.statistics.factorial import Levels, effects

FACTORS = ("magnitudes kept", "identity readable")
CALLED = {"first": FACTORS[0], "second": FACTORS[1], "interaction": "interaction"}
ORDER: tuple[Levels, ...] = ((False, False), (True, False), (False, True), (True, True))


EFFECT = [
    *("metric", "effect", "n", "mean", "sd", "low", "high", "two_way_low", "two_way_high"),
    *("p", "p_holm", "tests", "detectable", "verdict", "reason"),
]
NONE = (None, None)
YES, PARTLY, NO = "yes", "partly", "no"


class Labels(NamedTuple):
    """What a binding keeps, as declared in docs/fusions.md before any result: yes, partly or no."""

    kept: str
    """Whether the bound spectrum keeps magnitudes."""
    readable: str
    """Whether a linear map can read the word."""


def labels(fusion: Mapping[str, Any]) -> Labels | None:
    """Return the declared labels of a binding of word and position; None for another fusion.

    - Magnitudes are kept if no table of positions multiplies them (unit or fractional positions) or none is left
      (phases); partly with a learned exponent.
    - Identity is readable if the word itself passes, from a residual or delta start; partly with a complex output.

    The arms of results pages and the table of docs/fusions.md have these labels.
    """
    given = EARLIER | dict(fusion)
    if given.get("kind") != "fft" or len(given.get("sources", ())) != 2:
        return None
    kept = {"unit": YES, "phase": YES, "power": PARTLY, "product": NO}[given["magnitudes"]]
    readable = NO if given["start"] == "random" else YES
    return Labels(
        YES if given["positions"] != "table" else kept,
        PARTLY if given["output"] == "complex" and readable == NO else readable,
    )


def levels(fusion: Mapping[str, Any]) -> Levels | None:
    """Return whether a binding keeps magnitudes and keeps identity readable; None for a fusion outside the design.

    - Magnitudes of the bound spectrum are kept by unit positions (`magnitudes: unit`), and not by the plain product.
      Other bindings that keep magnitudes by their `labels` are outside this design; `by_labels` has them.
    - Identity is readable if the word itself passes, from a residual or delta start. Then most magnitudes pass with it:
      where identity is readable, unit positions can change little.
    """
    plain = {"kind": "fft", "positions": "table", "output": "real", "scale": "none", "normalisation": "none"}
    given = EARLIER | dict(fusion)
    if any(given.get(name) != value for name, value in plain.items()) or len(given.get("sources", ())) != 2:
        return None
    if given["magnitudes"] not in ("product", "unit"):
        return None
    return given["magnitudes"] == "unit", given["start"] != "random"


def design(params: Mapping[str, Mapping[str, Any]]) -> dict[Levels, list[str]]:
    """Return the arms of each combination, from the arms' parameters; combinations without an arm are left out.

    The arms agree in all but magnitudes, start and `fusion_lr` with the first plain arm. Each start with readable
    identity occurs with both magnitudes, so that the combinations are balanced.
    """
    rest: Any = None
    found: dict[Levels, dict[str, str]] = {}
    for arm, tree in sorted(params.items(), key=lambda one: levels(_fusion(one[1])) != ORDER[0]):
        if (at := levels(_fusion(tree))) is not None:
            rest = rest or _without_factors(tree)
            if _without_factors(tree) == rest:
                found.setdefault(at, {}).setdefault(_fusion(tree)["start"], arm)
    shared = {at[1]: set(found.get((False, at[1]), {})) & set(found.get((True, at[1]), {})) for at in ORDER}
    kept = {at: [arm for start, arm in found.get(at, {}).items() if start in shared[at[1]]] for at in ORDER}
    return {at: members for at, members in kept.items() if members}


def by_labels(params: Mapping[str, Mapping[str, Any]]) -> dict[Levels, list[str]]:
    """Return the arms of each combination by their declared `labels`; an arm with the label partly is in none.

    Other than in `design`, the arms of a combination may differ in more than the two factors.
    """
    found: dict[Levels, list[str]] = {at: [] for at in ORDER}
    for arm, tree in params.items():
        of = labels(_fusion(tree))
        if of is not None and PARTLY not in of:
            found[of.kept == YES, of.readable == YES].append(arm)
    return found


def _fusion(params: Mapping[str, Any]) -> Mapping[str, Any]:
    return dict(params.get("model", {}).get("fusion", {}))


def _without_factors(params: Mapping[str, Any]) -> dict[str, Any]:
    tree = copy.deepcopy(dict(params))
    tree["model"]["fusion"] = EARLIER | tree["model"]["fusion"] | {"magnitudes": None, "start": None}
    tree["training"] = {name: one for name, one in tree.get("training", {}).items() if name != "fusion_lr"}
    return tree


def remedies(arms: Arms, *, confidence: float, power: float, margin: float, **_: Any) -> dict[str, pd.DataFrame]:
    """Return the tables `remedies` and `remedy_effects` of a study that has arms of all four combinations; else none.

    - `remedies`: metric, kept, readable, arms, n (seeds), mean, sd; arms of one combination are averaged within a seed.
    - `remedy_effects`: metric, effect, n, mean, sd, low, high, two_way_low, two_way_high, p, p_holm, tests, detectable,
      verdict, reason, of `statistics.factorial.effects`.

    Seeds are those that all arms of the design have.
    """
    of = design({arm: next(iter(runs.values())).output.params for arm, runs in arms.items()})
    shared = [set(arms[arm]) for group in of.values() for arm in group]
    if len(of) < len(ORDER) or not (seeds := sorted(set.intersection(*shared))):
        return {}
    means, found = [], []
    cells = {at: [[arms[arm][seed] for seed in seeds] for arm in of[at]] for at in ORDER}
    runs = {at: [one for row in rows for one in row] for at, rows in cells.items()}
    every_run = [one for own in runs.values() for one in own]
    for metric in (name for name in metrics_of(arms) if all(name in one.scores for one in every_run)):

        def over_arms(values: str, metric: str = metric) -> dict[Levels, Any]:
            by_run = {at: [[getattr(one, values)[metric] for one in row] for row in rows] for at, rows in cells.items()}
            return {at: np.mean(numbers, axis=0) for at, numbers in by_run.items()}

        scores = over_arms("scores")
        shares = over_arms("shares") if all(metric in one.shares for one in every_run) else None
        for at in ORDER:
            sd = float(scores[at].std(ddof=1)) if len(seeds) > 1 else None
            about = {"metric": metric, "kept": at[0], "readable": at[1], "arms": ", ".join(of[at])}
            means.append({**about, "n": len(seeds), "mean": float(scores[at].mean()), "sd": sd})
        above = {at: known[0] for at, every in runs.items() if (known := above_constant(metric, every))}
        options: dict[str, Any] = {"confidence": confidence, "power": power, "margin": margin}
        tested = effects(scores, shares, **options, above=above or None)
        tests = sum(one.p_holm is not None for one in tested)
        for one in tested:
            (low, high), (two_way_low, two_way_high) = one.paired.interval or NONE, one.two_way or NONE
            row: dict[str, Any] = {"metric": metric, "effect": CALLED[one.name]} | one.paired._asdict()
            row |= {"low": low, "high": high, "two_way_low": two_way_low, "two_way_high": two_way_high}
            row |= {"p_holm": one.p_holm, "tests": tests, "detectable": one.detectable}
            found.append(row | {"verdict": one.verdict.word, "reason": one.verdict.reason})
    return {"remedies": pd.DataFrame(means), "remedy_effects": pd.DataFrame(found, columns=EFFECT)}


def means_table(means: pd.DataFrame) -> pd.DataFrame:
    """Return the four means, with what stands in their cells."""
    rows = means.to_dict("records")
    spread = [f"{row['mean']:.3f}" + ("" if pd.isna(row["sd"]) else f" ± {row['sd']:.3f}") for row in rows]
    words = {name: means[name].map({False: "no", True: "yes"}) for name in ("kept", "readable")}
    texts = [f"{text}\nn = {n}" for text, n in zip(spread, means["n"], strict=True)]
    return means.assign(**words, text=texts, panel=f"Test {means['metric'].iloc[0]}")


def effects_table(tested: pd.DataFrame) -> pd.DataFrame:
    """Return the effects, each with its verdict, and its interval over seeds and test items as the outer interval."""
    names = tested["effect"] + ": " + tested["verdict"]
    outer = {"outer_low": tested["two_way_low"], "outer_high": tested["two_way_high"]}
    return tested.assign(name=names, zero=0.0, **outer)


MEANS = View(
    name="remedies",
    needs=("remedies",),
    form=Matrix(
        points=means_table,
        x="readable",
        y="kept",
        columns="panel",
        value="mean",
        labels=("Identity readable", "Magnitudes kept"),
        bar="Mean over seeds",
        names={"no": "no", "yes": "yes"},
    ),
    by="metric",
    caption=(
        "Remedies of circular convolution by what they cure, test {}. Mean over seeds ± sd; bindings of one "
        "combination are averaged within a seed. Magnitudes kept: unit positions against the plain product; fractional "
        "positions and phases are not in it."
    ),
)
EFFECTS = View(
    name="remedy_effects",
    needs=("remedy_effects",),
    form=Intervals(points=effects_table, x="mean", y="name", labels=("Effect", ""), beside={"zero": "no effect"}),
    by="metric",
    caption=(
        "Effects of what remedies of circular convolution cure, test {}. Main effects (with − without, averaged over "
        "the other factor) and interaction, with intervals over seeds (thick) and over seeds and test items (thin), "
        "and the verdict. Cancellation of magnitudes is the cause only if the effect of kept magnitudes holds and is "
        "positive."
    ),
)
VIEWS = (MEANS, EFFECTS)
