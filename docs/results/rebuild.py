"""Rebuild the tables of the results pages: `python docs/results/rebuild.py`.

With `--check` it only prints the differences, and exits with 1 if there are any.

A table is between `<!-- table: NAME -->` and `<!-- end -->`; NAME is a function in TABLES. Its numbers come from the
per-run data next to the page (`<page>/*.csv`, `*.parquet`, written by collect.py), its verdicts from
`isoscope.platform.statistics.paired.judge`. A page has the answer and at most four tables; the others are in
`<page>/tables.md`. The table `<page>/chance` counts the families of tests of all tables of both.
"""

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import dynamics_tables
import hybrids_tables
import numpy as np
import pandas as pd
import spaces_tables
from failed import beside

from isoscope.platform.config.load import Configuration
from isoscope.platform.statistics.factorial import Effect, Levels, effects
from isoscope.platform.statistics.families import by_chance, families
from isoscope.platform.statistics.paired import (
    Interval,
    Paired,
    Verdict,
    holm,
    judge,
    minimum_detectable_effect,
    paired_t,
    two_way_interval,
)
from isoscope.studies.fusion import remedies
from isoscope.studies.fusion.remedies import CALLED, ORDER

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CONFIDENCE, POWER, MARGIN = 0.95, 0.8, 0.01
MAJORITY = {
    "fusion": 912 / 1821,
    "pretrained": 912 / 1821,
    "remedies": 0.5,
    "remedies/own": 912 / 1821,
    "embedded": 0.5,
}
"""Page (or training of a page) → share of the larger class in its test split: SST-2, or balanced generated text."""
BLOCK = re.compile(r"(<!-- table: (?P<name>\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
Lines = Iterator[str]


def runs(name: str) -> pd.DataFrame:
    """Return the per-run data `<page>/<training>`: digest, commit, arm, seed, metric, epoch, value."""
    return pd.read_csv(HERE / f"{name}.csv", dtype={"digest": str, "commit": str, "arm": str})


def by_seed(table: pd.DataFrame, metric: str = "test/accuracy") -> dict[str, dict[int, float]]:
    """Return arm → seed → value of a metric that each run has once; arms in the order of the file."""
    rows = table[(table["metric"] == metric) & table["seed"].notna()]
    return {
        str(arm): dict(zip(own["seed"].astype(int), own["value"], strict=True))
        for arm, own in rows.groupby("arm", sort=False)
    }


def by_item(name: str) -> dict[str, np.ndarray]:
    """Return `<arm>/<seed>` → whether each test item was predicted correctly; empty if predictions were not kept."""
    file = HERE / f"{name}.parquet"
    table = pd.read_parquet(file) if file.exists() else pd.DataFrame()
    return {str(run): correct.to_numpy(dtype=float) for run, correct in table.items()}


def pair(test: dict[str, dict[int, float]], arm: str, reference: str) -> tuple[Paired, list[int]]:
    """Return the difference of two arms over the seeds that both have, and these seeds."""
    seeds = [seed for seed in test[arm] if seed in test[reference]]
    scale = max(abs(test[one][seed]) for one in (arm, reference) for seed in seeds)
    return paired_t(
        [test[arm][seed] - test[reference][seed] for seed in seeds], confidence=CONFIDENCE, scale=scale
    ), seeds


def above_chance(name: str, means: Sequence[float]) -> list[float]:
    """Return by how much mean test accuracies of a training are above its `MAJORITY`."""
    chance = MAJORITY.get(name, MAJORITY[name.partition("/")[0]])
    return [mean - chance for mean in means]


def short(value: float, signed: bool = False) -> str:
    """Format with three decimals, without the zero before the point."""
    return re.sub(r"^([+−]?)0\.", r"\1.", f"{value:{'+' if signed else ''}.3f}".replace("-", "−"))


def with_sd(mean: float, sd: float) -> str:
    """Format a mean and a standard deviation, which a single value does not have."""
    return f"{short(mean)} ± {'–' if np.isnan(sd) else short(sd)}"


def between(interval: Interval | None) -> str:
    """Format the interval of a difference."""
    return "–" if interval is None else f"[{short(interval.low, True)}, {short(interval.high, True)}]"


def head(*columns: str, right: Sequence[int] = ()) -> Lines:
    """Yield the first two lines of a Markdown table; `right`: columns of numbers."""
    yield f"| {' | '.join(columns)} |"
    yield f"|{'|'.join('---:' if place in right else '---' for place in range(len(columns)))}|"


def arms(name: str, labels: Mapping[str, tuple[str, ...]], heads: tuple[str, ...] = ("arm",)) -> Lines:
    """Yield a row per arm: validation accuracy after each epoch, selected epoch, test accuracy by seed."""
    table = runs(name)
    best, test = by_seed(table, "training/best_epoch"), by_seed(table)
    columns = (*heads, "seeds", "validation accuracy by epoch, for each seed", "selected epoch")
    yield from head(*columns, "test accuracy, for each seed", "mean ± sd", right=(len(heads), len(heads) + 4))
    for arm, label in labels.items():
        if arm not in test:  # not trained yet
            yield f"| {' | '.join(label)} | 0 {'| – ' * 4}|"
            continue
        own = table[(table["arm"] == arm) & (table["metric"] == "validation/accuracy") & (table["epoch"] > 0)]
        courses = [", ".join(short(value) for value in seed["value"]) for _, seed in own.groupby("seed")]
        values = list(test[arm].values())
        epochs = ", ".join(str(int(epoch)) for epoch in best[arm].values())
        ends = ", ".join(short(value) for value in values)
        mean = with_sd(np.mean(values), np.std(values, ddof=1) if len(values) > 1 else np.nan)
        yield f"| {' | '.join(label)} | {len(values)} | {'; '.join(courses)} | {epochs} | {ends} | {mean} |"
    for _, row in table[table["seed"].isna() & (table["metric"] == "test/accuracy")].iterrows():
        yield f"| *{BASELINES[row['arm']]}* {'| ' * (len(heads) + 4)}| *{short(row['value'])}* |"


def rates(
    name: str, names: Mapping[str, tuple[str, ...]], heads: tuple[str, ...], own: Mapping[str, str] | None = None
) -> Lines:
    """Yield the least validation loss (accuracy at that epoch) of each arm at each rate, and its own rate.

    An arm that was not trained with every rate has no own rate yet. `own`: arm → rate; None: that with the least loss.
    """
    table = runs(name)
    loss, accuracy = (by_seed(table, f"validation/{metric}") for metric in ("loss", "accuracy"))
    tried = sorted({arm.split("@")[1] for arm in loss}, key=float)
    yield from head(*heads, *tried, "own rate", right=range(len(heads), len(heads) + len(tried)))
    for arm, label in names.items():
        of = {rate: f"{arm}@{rate}" for rate in tried if f"{arm}@{rate}" in loss}
        least, reached = (
            {rate: next(iter(found[run].values())) for rate, run in of.items()} for found in (loss, accuracy)
        )
        cells = " | ".join(f"{short(least[rate])} ({short(reached[rate])})" if rate in of else "–" for rate in tried)
        found = min(least, key=least.__getitem__) if len(least) == len(tried) else "–"
        yield f"| {' | '.join(label)} | {cells} | {own[arm] if own else found} |"


def differences(name: str, pairs: Sequence[tuple[str, str, str]]) -> Lines:
    """Yield each difference with its intervals, p by Holm over all of them, the detectable effect and the verdict."""
    test, items = by_seed(runs(name)), by_item(name)
    found = []
    for _, arm, reference in pairs:
        paired, seeds = pair(test, arm, reference)
        each = [items[f"{arm}/{seed}"] - items[f"{reference}/{seed}"] for seed in seeds] if items else []
        found.append((paired, two_way_interval(np.stack(each), confidence=CONFIDENCE) if each else None))
    corrected = holm([np.nan if paired.p is None else paired.p for paired, _ in found])
    tests = sum(paired.p is not None for paired, _ in found)
    columns = ("difference of test accuracy", "seeds", "mean", "over seeds", "over seeds and sentences", "p (Holm)")
    yield from head(*columns, "detectable", "verdict", right=(1, 2, 5, 6))
    for (title, arm, reference), (paired, two_way), p in zip(pairs, found, corrected, strict=True):
        detectable = None
        if paired.interval and paired.sd:
            effect = minimum_detectable_effect(paired.n, confidence=CONFIDENCE, power=POWER, tests=tests)
            detectable = effect * paired.sd
        verdict = judge(
            paired,
            two_way,
            p_holm=None if np.isnan(p) else p,
            detectable=detectable,
            confidence=CONFIDENCE,
            margin=MARGIN,
            above=above_chance(name, [np.mean(list(test[one].values())) for one in (arm, reference)]),
        )
        each = [test[arm][seed] - test[reference][seed] for seed in pair(test, arm, reference)[1]]
        yield finding(title, paired, two_way, p, detectable, verdict, beside(each))


def finding(
    title: str,
    paired: Paired,
    two_way: Interval | None,
    p: float | None,
    detectable: float | None,
    verdict: Verdict,
    note: str = "",
) -> str:
    """Return a row of a table of differences or effects."""
    cells = (str(paired.n), short(paired.mean, True), between(paired.interval), between(two_way))
    chances = ("–" if value is None or np.isnan(value) else short(value) for value in (p, detectable))
    return f"| {title} | {' | '.join((*cells, *chances))} | *{verdict.word}*: {verdict.reason}{note} |"


def design(name: str) -> dict[Levels, list[str]]:
    """Return the arms of a training in each combination of the 2 × 2 of remedies, by their overlays."""
    return remedies.design(parameters(name))


def parameters(name: str) -> dict[str, dict[str, Any]]:
    """Return the parameters of a training's arms, from their overlays."""
    overlay = Configuration(ROOT).overlay
    return {arm: overlay(Path("variants/fusion", f"{arm}.yaml")) for arm in by_seed(runs(name))}


def by_labels(name: str) -> dict[Levels, list[str]]:
    """Return the arms of a training in each combination, by their declared labels."""
    return remedies.by_labels(parameters(name))


def combinations(name: str) -> Lines:
    """Yield mean ± sd of test accuracy over seeds for each combination; its arms are averaged within a seed."""
    test = by_seed(runs(name))
    yield from head("magnitudes kept", "identity readable", "arms", "seeds", "mean ± sd", right=(3, 4))
    for (kept, readable), members in design(name).items():
        values = np.mean([list(test[arm].values()) for arm in members], axis=0)
        mean = with_sd(values.mean(), values.std(ddof=1))
        words = ("yes" if one else "no" for one in (kept, readable))
        yield f"| {' | '.join(words)} | {', '.join(members)} | {len(values)} | {mean} |"


def interventions(name: str) -> Lines:
    """Yield mean ± sd over seeds of what a trained model does with other magnitudes."""
    table = pd.read_csv(HERE / f"{name}.csv")
    metrics = {"accuracy": "test accuracy", "loss": "test loss"}
    metrics |= {f"{at}/{read}": f"{read}, {at}" for at in ("block", "last") for read in ("word", "position")}
    yield from head("arm", "magnitudes", "seeds", *metrics.values(), right=range(2, 3 + len(metrics)))
    for (arm, kind), own in table.groupby(["arm", "intervention"], sort=False):
        of = own.groupby("metric")["value"].agg(["mean", "std", "count"])
        cells = [with_sd(of["mean"][one], of["std"][one]) for one in metrics]
        yield f"| {arm} | {kind} | {of['count'].iloc[0]} | {' | '.join(cells)} |"


def causes(name: str) -> Lines:
    """Yield both main effects and the interaction of the 2 × 2 on test accuracy."""
    columns = ("effect on test accuracy", "seeds", "mean", "over seeds", "over seeds and sentences", "p (Holm)")
    yield from head(*columns, "detectable", "verdict", right=(1, 2, 5, 6))
    for one in effects_of(name, design(name)):
        yield finding(CALLED[one.name], *one[1:])


def effects_of(name: str, of: Mapping[Levels, Sequence[str]]) -> list[Effect]:
    """Return the effects on test accuracy, given the arms of each combination; these are averaged within a seed."""
    test, items = by_seed(runs(name)), by_item(name)
    seeds = list(next(iter(test.values())))
    scores = {at: np.mean([[test[arm][seed] for seed in seeds] for arm in of[at]], axis=0) for at in ORDER}
    shares = {at: np.mean([[items[f"{arm}/{seed}"] for seed in seeds] for arm in of[at]], axis=0) for at in ORDER}
    above = {at: above_chance(name, [scores[at].mean()])[0] for at in ORDER}
    return effects(scores, shares, confidence=CONFIDENCE, power=POWER, margin=MARGIN, above=above)


def readings(names: Mapping[str, str]) -> Lines:
    """Yield both main effects of the 2 × 2 by several choices of arms; each choice is a family of three effects.

    The choices: unit positions alone; with fractional positions; all arms with whole labels of `remedies.labels`.
    """
    columns = ("training", "magnitudes kept, identity hidden", "effect on test accuracy", "seeds", "mean", "over seeds")
    yield from head(*columns, "over seeds and sentences", "p (Holm)", "detectable", "verdict", right=(3, 4, 7, 8))
    for name, title in names.items():
        balanced, every = design(name), by_labels(name)
        fractional = {
            at: [arm for arm in members if arm in balanced[at] or "fractional" in arm] for at, members in every.items()
        }
        for of in (balanced, fractional, every):
            for one in effects_of(name, of)[:2]:
                yield f"| {title} | {', '.join(of[True, False])} {finding(CALLED[one.name], *one[1:])}"


def leaving(name: str, labels: Mapping[str, tuple[str, ...]], chance: float, sentences: int) -> Lines:
    """Yield after how many updates validation accuracy leaves chance, for each seed.

    It has left chance at the first evaluation that is more than three standard errors above it, of `sentences` draws.
    """
    table = runs(name)
    table = table[table["metric"] == "validation/accuracy"]
    bound = chance + 3 * float(np.sqrt(chance * (1 - chance) / sentences))
    yield from head("arm", "binding", "updates until validation accuracy leaves chance, for each seed", "seeds that do")
    for arm, label in labels.items():
        left = [own[own["value"] > bound]["step"].min() for _, own in table[table["arm"] == arm].groupby("seed")]
        shown = ", ".join("never" if np.isnan(step) else f"{int(step):,}" for step in left)
        yield f"| {' | '.join(label)} | {shown} | {np.isfinite(left).sum()} of {len(left)} |"


def bags(name: str, labels: Mapping[str, tuple[str, ...]]) -> Lines:
    """Yield rank correlations of bags of untrained vectors with the grades of pairs: mean ± sd over seeds."""
    table = pd.read_csv(HERE / f"{name}.csv")
    kinds = {"spearman": "ρ", "spearman_centred": "ρ, centred", "spearman_control": "shuffled pairs"}
    columns = [(at, kind) for at in ("block", "last") for kind in kinds]
    yield from head(
        *("arm", "vectors", "seeds"),
        *(f"{kinds[kind]}, {at}" for at, kind in columns),
        right=range(2, 3 + len(columns)),
    )
    labels = {"word table": ("word table", "word vectors alone"), **labels}
    of = table.groupby(["arm", "vectors", "metric"])["value"].agg(["mean", "std", "count"])
    for arm, label in labels.items():
        places = [("word table" if arm == "word table" else at, kind) for at, kind in columns]
        cells = [with_sd(of["mean"][arm, *place], of["std"][arm, *place]) for place in places]
        if arm == "word table":
            cells[3:] = ["–"] * 3  # no layer
        yield f"| {' | '.join(label)} | {of['count'][arm, *places[0]]} | {' | '.join(cells)} |"


def inside(name: str, labels: Mapping[str, tuple[str, ...]], columns: Mapping[str, tuple[str, str, str]]) -> Lines:
    """Yield metrics of the chosen model or before training: mean ± sd over seeds. `columns`: when, part and metric."""
    table = pd.read_csv(HERE / f"{name}.csv")
    of = table.groupby(["arm", "when", "part", "metric"])["value"].agg(["mean", "std"])
    yield from head("arm", *columns, right=range(1, 1 + len(columns)))
    for arm in labels:
        shown = []
        for column in columns.values():
            one = of.loc[arm, *column] if (arm, *column) in of.index else None
            shown.append("–" if one is None else with_sd(*one))
        yield f"| {arm} | {' | '.join(shown)} |"


def means(names: Mapping[str, str], labels: Mapping[str, str]) -> Lines:
    """Yield the mean test accuracy of each arm in each training, ± sd, and the number of seeds."""
    yield from head("arm", "binding", *names.values(), right=range(2, 2 + len(names)))
    tests = [by_seed(runs(name)) for name in names]
    for arm, label in labels.items():
        found = [list(test[arm].values()) if arm in test else [] for test in tests]
        cells = [f"{with_sd(np.mean(one), np.std(one, ddof=1))} ({len(one)})" if one else "–" for one in found]
        yield f"| {arm} | {label} | {' | '.join(cells)} |"


def trainings(names: dict[str, str], pairs: Sequence[tuple[str, str, str]]) -> Lines:
    """Yield the same differences in each training of the arms: mean, interval over seeds, number of seeds."""
    yield from head("difference of test accuracy", *names.values())
    tests = {name: by_seed(runs(name)) for name in names}
    for title, arm, reference in pairs:
        cells = []
        for test in tests.values():
            if arm in test and reference in test:
                paired, _ = pair(test, arm, reference)
                cells.append(
                    f"{short(paired.mean, True)} {between(paired.interval)}, {paired.n} seed{'s' * (paired.n > 1)}"
                )
            else:
                cells.append("–")
        yield f"| {title} | {' | '.join(cells)} |"


BASELINES = {"tfidf_unigrams": "TF-IDF, unigrams", "tfidf_bigrams": "TF-IDF, uni- and bigrams"}
SMALL, UNIT = "N(0, 0.02²)", "N(0, 1)"
FUSIONS = {
    f"{fusion}{suffix}": (fusion, tables)
    for suffix, tables in (("", SMALL), ("_unit", UNIT))
    for fusion in ("additive", "conv2d", "fft")
}
OWN_RATES = {"additive_unit": "1e-4"} | dict.fromkeys(FUSIONS.keys() - {"additive_unit"}, "3e-4")
NINE = (
    (f"Conv2D − additive, both {SMALL}", "conv2d", "additive"),
    (f"Conv2D − additive, both {UNIT}", "conv2d_unit", "additive_unit"),
    (f"Conv2D {UNIT} − additive {SMALL} (Li 2025)", "conv2d_unit", "additive"),
    (f"Conv2D, {UNIT} − {SMALL}", "conv2d_unit", "conv2d"),
    (f"additive, {UNIT} − {SMALL}", "additive_unit", "additive"),
    (f"FFT − additive, both {SMALL}", "fft", "additive"),
    (f"FFT {UNIT} − additive {SMALL} (Li 2025)", "fft_unit", "additive"),
    (f"FFT − additive, both {UNIT}", "fft_unit", "additive_unit"),
    (f"FFT, {UNIT} − {SMALL}", "fft_unit", "fft"),
)
TRAININGS = {
    "fusion/own_first": "first: bf16, seeds 0–2",
    "fusion/own_second": "second: bf16, seeds 0–2 again",
    "fusion/own": "third: fp32, seeds 200–205",
}

PUBLISHED = tuple(pair for pair in NINE if "Li 2025" in pair[0] or pair[1:] == ("conv2d", "additive"))
PHRASES = tuple(pair for pair in NINE if pair[1:] in (("conv2d", "additive"), ("fft", "additive")))
STARTS = {
    "additive": ("pre-trained",),
    "conv2d_identity": ("delta kernel, no activation",),
    "fft_residual": ("gate 0",),
    "conv2d": ("random 3 × 3 kernel, GELU (destroyed)",),
    "fft": ("bare product (destroyed)",),
}
EMBEDDED = {arm: (arm,) for arm in ("additive", "conv2d", "fft")}

REMEDIES = {
    "fft": "W · P",
    "fft_unitary": "W · P/\\|P\\|",
    "fft_power_one": "\\|P\\|^β, β from 1",
    "fft_power_half": "\\|P\\|^β, β from ½",
    "fft_power_zero": "\\|P\\|^β, β from 0",
    "fft_phase": "phases alone",
    "fft_fractional": "fractional positions",
    "fft_fractional_learned": "fractional, θ learned",
    "fft_complex": "phases, complex output",
    "fft_residual": "residual",
    "fft_delta": "δ + p",
    "fft_unitary_residual": "unitary, residual",
    "fft_unitary_delta": "unitary, δ + p",
    "fft_scaled": "W · P, variance scaled",
    "additive": "sum",
}
MAGNITUDES = (
    ("unitary − plain", "fft_unitary", "fft"),
    ("unitary − plain with the same variance", "fft_unitary", "fft_scaled"),
    ("unitary − plain, residual start", "fft_unitary_residual", "fft_residual"),
    ("unitary − plain, delta start", "fft_unitary_delta", "fft_delta"),
)
READ = {
    f"{read}, {title}": (when, part, read)
    for read in ("word", "position")
    for title, when, part in (
        ("start", "start", "fused"),
        ("block", "chosen", "fused"),
        ("layer 1", "chosen", "layer 1"),
        ("layer 2", "chosen", "layer 2"),
    )
}
INSIDE = {
    "flatness, start": ("start", "fused", "flatness"),
    "flatness": ("chosen", "fused", "flatness"),
    "dead, start": ("start", "fused", "dead"),
    "dead": ("chosen", "fused", "dead"),
    "gradient, words": ("start", "word", "gradient"),
    "gradient, positions": ("start", "position", "gradient"),
    "entropy": ("chosen", "layer 2", "entropy"),
    "distance": ("chosen", "layer 2", "distance"),
    "on itself": ("chosen", "layer 2", "itself"),
    "a₁": ("chosen", "layer 2", "a_1_centred"),
    "effective rank": ("chosen", "layer 2", "effective_rank"),
}
SCALED = ("plain with the variance of the word table − plain", "fft_scaled", "fft")
READINGS = {
    "remedies/embedded": "generated, first",
    "remedies/embedded_second": "generated, second",
    "remedies/own": "SST-2",
}
REPEATED = {
    "remedies/embedded": "first: seeds 0–2",
    "remedies/embedded_second": "second: seeds 0–2 again",
    "remedies/embedded_fresh": "third: seeds 3–7",
}
PARTS = {
    "conv2d": "3 × 3, GELU",
    "conv2d_1x1": "1 × 1",
    "conv2d_1x3": "1 × 3: hidden dimensions only",
    "conv2d_3x1": "3 × 1: positions only",
    "conv2d_5x5": "5 × 5",
    "conv2d_linear": "no GELU",
    "conv2d_bias": "a bias",
    "conv2d_gate": "a gate from .5",
    "conv2d_token_type": "plus the token type",
    "conv2d_frozen": "frozen random kernel",
    "conv2d_frozen_identity": "frozen delta kernel (control)",
    "conv2d_permuted": "permuted hidden dimensions",
    "linear_18": "18 weights, no kernel",
    "additive": "sum",
}

_FUSION = ("arm", "tables")
TABLES: dict[str, Callable[[], Lines]] = {
    "fusion/rates": partial(rates, "fusion/rates", FUSIONS, _FUSION, OWN_RATES),
    "fusion/published_rate": partial(arms, "fusion/published_rate", FUSIONS, _FUSION),
    "fusion/published_rate_differences": partial(differences, "fusion/published_rate", PUBLISHED),
    "fusion/own_first": partial(arms, "fusion/own_first", FUSIONS, _FUSION),
    "fusion/own": partial(arms, "fusion/own", FUSIONS, _FUSION),
    "fusion/differences": partial(differences, "fusion/own", NINE),
    "fusion/trainings": partial(trainings, TRAININGS, NINE),
    "fusion/phrases": partial(differences, "fusion/phrases", PHRASES),
    "pretrained/arms": partial(
        arms, "pretrained/runs", {arm: (arm, *start) for arm, start in STARTS.items()}, ("arm", "start")
    ),
    "pretrained/differences": partial(
        differences, "pretrained/runs", [(f"{arm} − additive", arm, "additive") for arm in list(STARTS)[1:]]
    ),
    "remedies/interventions": partial(interventions, "remedies/interventions"),
    "remedies/arms": partial(
        arms, "remedies/embedded", {arm: (arm, what) for arm, what in REMEDIES.items()}, ("arm", "binding")
    ),
    "remedies/combinations": partial(combinations, "remedies/embedded"),
    "remedies/causes": partial(causes, "remedies/embedded"),
    "remedies/magnitudes": partial(differences, "remedies/embedded", MAGNITUDES),
    "remedies/means": partial(means, REPEATED, REMEDIES),
    "remedies/trainings": partial(trainings, REPEATED, (*MAGNITUDES, SCALED)),
    "remedies/causes_second": partial(causes, "remedies/embedded_second"),
    "remedies/combinations_fresh": partial(combinations, "remedies/embedded_fresh"),
    "remedies/causes_fresh": partial(causes, "remedies/embedded_fresh"),
    "remedies/magnitudes_fresh": partial(differences, "remedies/embedded_fresh", MAGNITUDES),
    "remedies/differences": partial(
        differences, "remedies/embedded", [(f"{arm} − fft", arm, "fft") for arm in list(REMEDIES)[1:]]
    ),
    "remedies/rates": partial(
        rates, "remedies/rates", {arm: (arm, what) for arm, what in REMEDIES.items()}, ("arm", "binding")
    ),
    "remedies/own": partial(
        arms, "remedies/own", {arm: (arm, what) for arm, what in REMEDIES.items()}, ("arm", "binding")
    ),
    "remedies/readings": partial(readings, READINGS),
    "remedies/own_combinations": partial(combinations, "remedies/own"),
    "remedies/own_causes": partial(causes, "remedies/own"),
    "remedies/own_magnitudes": partial(differences, "remedies/own", MAGNITUDES),
    "remedies/own_differences": partial(
        differences, "remedies/own", [(f"{arm} − fft", arm, "fft") for arm in list(REMEDIES)[1:]]
    ),
    "remedies/own_leaving": partial(
        leaving, "remedies/own", {arm: (arm, what) for arm, what in REMEDIES.items()}, 0.5, 872
    ),
    "remedies/leaving": partial(
        leaving, "remedies/embedded", {arm: (arm, what) for arm, what in REMEDIES.items()}, 0.5, 1080
    ),
    "remedies/read": partial(inside, "remedies/inside", REMEDIES, READ),
    "remedies/inside": partial(inside, "remedies/inside", REMEDIES, INSIDE),
    "remedies/bag": partial(bags, "remedies/bag", {arm: (arm, what) for arm, what in REMEDIES.items()}),
    "remedies/parts": partial(
        arms, "remedies/conv2d_parts", {arm: (arm, what) for arm, what in PARTS.items()}, ("arm", "kernel")
    ),
    "remedies/parts_differences": partial(
        differences, "remedies/conv2d_parts", [(f"{arm} − conv2d", arm, "conv2d") for arm in list(PARTS)[1:]]
    ),
    "embedded/arms": partial(arms, "embedded/fusion", EMBEDDED),
    "embedded/differences": partial(
        differences, "embedded/fusion", [(f"{arm} − additive", arm, "additive") for arm in list(EMBEDDED)[1:]]
    ),
    **dynamics_tables.TABLES,
    **spaces_tables.TABLES,
    **hybrids_tables.TABLES,
}


CHANCE = "/chance"
BREAK = "\f"


def chance(tested: Mapping[str, Sequence[Sequence[float]]]) -> Lines:
    """Yield the families and tests of each table of a page, the findings, and how many chance alone would give.

    `tested`: table → corrected p of each family. A family without a test does not count.
    """
    yield from head("table", "families", "tests", "p (Holm) below .05", "by chance alone", right=range(1, 5))
    rows = []
    for name, found in tested.items():
        tests = [[p for p in family if not np.isnan(p)] for family in found]
        tests = [family for family in tests if family]
        if tests:
            below = sum(p < 1 - CONFIDENCE for family in tests for p in family)
            rows.append((len(tests), sum(map(len, tests)), below))
            yield _counted(name.partition("/")[2].replace("_", " "), rows[-1])
    yield _counted("*all*", tuple(map(sum, zip(*rows, strict=True))) or (0, 0, 0))


def _counted(name: str, counts: tuple[int, ...]) -> str:
    return f"| {name} | {' | '.join(map(str, counts))} | {by_chance(counts[0], confidence=CONFIDENCE):.2f} |"


def files(page: Path) -> list[Path]:
    """Return the files of a page: itself, and the file of its other tables."""
    return [file for file in (page, page.with_suffix("") / "tables.md") if file.exists()]


def whole(page: Path) -> str:
    """Return the text of a page and of its other tables, with `BREAK` between them."""
    return BREAK.join(file.read_text("utf-8") for file in files(page))


def rebuilt(text: str) -> str:
    """Return a text with every table rebuilt, `CHANCE` last: it counts the tests of the others."""
    made: dict[str, list[str]] = {}
    tested: dict[str, list[Sequence[float]]] = {}
    for name in [found["name"] for found in BLOCK.finditer(text)]:
        if not name.endswith(CHANCE):
            with families() as tested[name]:
                made[name] = [*TABLES[name]()]

    def block(found: re.Match[str]) -> str:
        return found[1] + "\n".join(made.get(found["name"]) or chance(tested)) + "\n" + found[3]

    return BLOCK.sub(block, text)


def main() -> None:
    """Rebuild or check every page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a table differs")
    check, wrong = parser.parse_args().check, False
    for page in sorted(HERE.glob("*.md")):
        old = whole(page)
        for file, before, after in zip(files(page), old.split(BREAK), rebuilt(old).split(BREAK), strict=True):
            if before == after:
                continue
            wrong, name = True, str(file.relative_to(HERE))
            if check:
                sys.stdout.writelines(
                    difflib.unified_diff(before.splitlines(True), after.splitlines(True), name, "rebuilt")
                )
            else:
                file.write_text(after, "utf-8")
                print(f"{name}: rebuilt")
    sys.exit(int(check and wrong))


if __name__ == "__main__":
    main()
