"""The tables of fusion.md, pretrained.md, embedded.md and remedies.md: scores of classifiers by seed."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from judged import MARGIN, POWER, VERDICT, Tested, apart, cells_of, verdicts
from per_run import by_item, by_seed, constant, stored
from written import CONFIDENCE, NONE, Table, between, short, spread

from isoscope.platform.config.load import Configuration
from isoscope.platform.statistics.factorial import Effect, Levels, effects
from isoscope.platform.statistics.paired import paired_t, two_way_interval
from isoscope.studies.fusion import remedies
from isoscope.studies.fusion.remedies import CALLED, ORDER

ROOT = Path(__file__).parents[2]
MAJORITY = {
    "fusion": 912 / 1821,
    "pretrained": 912 / 1821,
    "remedies": 0.5,
    "remedies/own": 912 / 1821,
    "embedded": 0.5,
    "search": 912 / 1821,
}
"""Page (or training of a page) whose file has no classes → share of the larger class in its test split: SST-2, balanced
generated text."""
Labels = Mapping[str, tuple[str, ...]]
Pairs = Sequence[tuple[str, str, str]]


def above_chance(name: str, means: Sequence[float], metric: str = "accuracy") -> list[float]:
    """Return by how much mean test scores of a training are above the best constant prediction (`MAJORITY`)."""
    if (chance := constant(name, metric)) is None:
        chance = MAJORITY.get(name, MAJORITY[name.partition("/")[0]])
    return [mean - chance for mean in means]


def arms(name: str, labels: Labels, heads: tuple[str, ...] = ("arm",)) -> Table:
    """Return a row per arm: validation accuracy after each epoch, selected epoch, test accuracy by seed."""
    table, best, test = stored(f"{name}.csv"), by_seed(name, "training/best_epoch"), by_seed(name)
    curves = table[(table["metric"] == "validation/accuracy") & (table["epoch"] > 0)]
    rows: list[tuple[object, ...]] = []
    for arm, label in labels.items():
        courses = [", ".join(map(short, own["value"])) for _, own in curves[curves["arm"] == arm].groupby("seed")]
        epochs = ", ".join(f"{epoch:.0f}" for epoch in best[arm].values())
        ends = ", ".join(map(short, test[arm].values()))
        rows.append((*label, len(test[arm]), "; ".join(courses), epochs, ends, spread(test[arm].values())))
    for arm, value in table.loc[table["seed"].isna() & (table["metric"] == "test/accuracy"), ["arm", "value"]].values:
        rows.append((f"*{BASELINES[arm]}*", *[""] * (len(heads) + 3), f"*{short(value)}*"))
    columns = ("seeds", "validation accuracy by epoch, for each seed", "selected epoch")
    return Table((*heads, *columns, "test accuracy, for each seed", "mean ± sd"), rows)


def difference(name: str, arm: str, reference: str, metric: str = "accuracy") -> Tested:
    """Return the difference of a test score of two arms, over the seeds that both have."""
    test, items = by_seed(name, f"test/{metric}"), by_item(name, metric)
    one, other = test[arm], test[reference]
    seeds = [seed for seed in one if seed in other]
    two_way = None
    if items:
        shares = np.stack([items[f"{arm}/{seed}"] - items[f"{reference}/{seed}"] for seed in seeds])
        two_way = two_way_interval(shares, confidence=CONFIDENCE)
    above = above_chance(name, [float(np.mean([*side.values()])) for side in (one, other)], metric)
    return apart(one, other, two_way=two_way, above=above)


def differences(name: str, pairs: Pairs) -> Table:
    """Return each difference with its verdict; a family."""
    family = [difference(name, arm, reference) for _, arm, reference in pairs]
    judged = zip(pairs, verdicts(family, short, claims=False), strict=True)
    return Table(("difference of test accuracy", *VERDICT), [(title, *cells) for (title, *_), cells in judged])


def minus(reference: str, others: Sequence[str]) -> Pairs:
    """Return the differences of arms from a reference."""
    return [(f"{arm} − {reference}", arm, reference) for arm in others if arm != reference]


def trainings(names: Mapping[str, str], pairs: Pairs) -> Table:
    """Return the same differences in each training of the arms: mean, interval over seeds, number of seeds."""

    def cell(name: str, arm: str, reference: str) -> str:
        if not {arm, reference} <= by_seed(name).keys():
            return NONE
        one = difference(name, arm, reference)
        found = paired_t(one.values, confidence=CONFIDENCE, scale=one.scale)
        return f"{short(found.mean, True)} {between(found.interval, short)}, {found.n} seed{'s' * (found.n > 1)}"

    rows = [(title, *(cell(name, *both) for name in names)) for title, *both in pairs]
    return Table(("difference of test accuracy", *names.values()), rows)


def design(name: str, *, declared: bool = False) -> dict[Levels, list[str]]:
    """Return the arms of a training in each combination of the 2 × 2, by their overlays or by declared labels."""
    overlay = Configuration(ROOT).overlay
    parameters = {arm: overlay(Path("variants/fusion", f"{arm}.yaml")) for arm in by_seed(name)}
    return (remedies.by_labels if declared else remedies.design)(parameters)


def combinations(name: str) -> Table:
    """Return mean ± sd of test accuracy over seeds for each combination; its arms are averaged within a seed."""
    test, rows = by_seed(name), []
    for levels, members in design(name).items():
        values = np.mean([[test[arm][seed] for seed in test[members[0]]] for arm in members], axis=0)
        words = ("yes" if level else "no" for level in levels)
        rows.append((*words, ", ".join(members), len(values), spread(values)))
    return Table(("magnitudes kept", "identity readable", "arms", "seeds", "mean ± sd"), rows)


def effects_of(name: str, of: Mapping[Levels, Sequence[str]]) -> list[Effect]:
    """Return the effects on test accuracy, given the arms of each combination; these are averaged within a seed."""
    test, items = by_seed(name), by_item(name)
    seeds = [*next(iter(test.values()))]
    scores = {at: np.mean([[test[arm][seed] for seed in seeds] for arm in of[at]], axis=0) for at in ORDER}
    shares = {at: np.mean([[items[f"{arm}/{seed}"] for seed in seeds] for arm in of[at]], axis=0) for at in ORDER}
    above = {at: above_chance(name, [scores[at].mean()])[0] for at in ORDER}
    return effects(scores, shares, confidence=CONFIDENCE, power=POWER, margin=MARGIN, above=above)


def causes(name: str) -> Table:
    """Return both main effects and the interaction of the 2 × 2 on test accuracy."""
    rows = [(CALLED[one.name], *cells_of(*one[1:], write=short)) for one in effects_of(name, design(name))]
    return Table(("effect on test accuracy", *VERDICT), rows)


def readings(names: Mapping[str, str]) -> Table:
    """Return both main effects of the 2 × 2 and their interaction by several choices of arms, each a family.

    The choices: unit positions alone; with fractional positions; all arms with whole labels of `remedies.labels`.
    """
    rows = []
    for name, title in names.items():
        balanced, every = design(name), design(name, declared=True)
        fractional = {
            at: [arm for arm in members if arm in balanced[at] or "fractional" in arm] for at, members in every.items()
        }
        for of in (balanced, fractional, every):
            for one in effects_of(name, of):
                rows.append((title, ", ".join(of[True, False]), CALLED[one.name], *cells_of(*one[1:], write=short)))
    return Table(("training", "magnitudes kept, identity hidden", "effect on test accuracy", *VERDICT), rows)


BASELINES = {"tfidf_unigrams": "TF-IDF, unigrams", "tfidf_bigrams": "TF-IDF, uni- and bigrams"}
SMALL, UNIT = "N(0, 0.02²)", "N(0, 1)"
FUSIONS = {
    f"{fusion}{suffix}": (fusion, tables)
    for suffix, tables in (("", SMALL), ("_unit", UNIT))
    for fusion in ("additive", "conv2d", "fft")
}
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
    "additive": ("additive", "pre-trained"),
    "conv2d_identity": ("conv2d_identity", "delta kernel, no activation"),
    "fft_residual": ("fft_residual", "gate 0"),
    "conv2d": ("conv2d", "random 3 × 3 kernel, GELU (destroyed)"),
    "fft": ("fft", "bare product (destroyed)"),
}
EMBEDDED = {arm: (arm,) for arm in ("additive", "conv2d", "fft")}

REMEDIES = {
    "fft": ("fft", "W · P"),
    "fft_unitary": ("fft_unitary", "W · P/\\|P\\|"),
    "fft_power_one": ("fft_power_one", "\\|P\\|^β, β from 1"),
    "fft_power_half": ("fft_power_half", "\\|P\\|^β, β from ½"),
    "fft_power_zero": ("fft_power_zero", "\\|P\\|^β, β from 0"),
    "fft_phase": ("fft_phase", "phases alone"),
    "fft_fractional": ("fft_fractional", "fractional positions"),
    "fft_fractional_learned": ("fft_fractional_learned", "fractional, θ learned"),
    "fft_complex": ("fft_complex", "phases, complex output"),
    "fft_residual": ("fft_residual", "residual"),
    "fft_delta": ("fft_delta", "δ + p"),
    "fft_unitary_residual": ("fft_unitary_residual", "unitary, residual"),
    "fft_unitary_delta": ("fft_unitary_delta", "unitary, δ + p"),
    "fft_scaled": ("fft_scaled", "W · P, variance scaled"),
    "additive": ("additive", "sum"),
}
MAGNITUDES = (
    ("unitary − plain", "fft_unitary", "fft"),
    ("unitary − plain with the same variance", "fft_unitary", "fft_scaled"),
    ("unitary − plain, residual start", "fft_unitary_residual", "fft_residual"),
    ("unitary − plain, delta start", "fft_unitary_delta", "fft_delta"),
)
SCALED = ("plain with the variance of the word table − plain", "fft_scaled", "fft")
PARTS = {
    "conv2d": ("conv2d", "3 × 3, GELU"),
    "conv2d_1x1": ("conv2d_1x1", "1 × 1"),
    "conv2d_1x3": ("conv2d_1x3", "1 × 3: hidden dimensions only"),
    "conv2d_3x1": ("conv2d_3x1", "3 × 1: positions only"),
    "conv2d_5x5": ("conv2d_5x5", "5 × 5"),
    "conv2d_linear": ("conv2d_linear", "no GELU"),
    "conv2d_bias": ("conv2d_bias", "a bias"),
    "conv2d_gate": ("conv2d_gate", "a gate from .5"),
    "conv2d_token_type": ("conv2d_token_type", "plus the token type"),
    "conv2d_frozen": ("conv2d_frozen", "frozen random kernel"),
    "conv2d_frozen_identity": ("conv2d_frozen_identity", "frozen delta kernel (control)"),
    "conv2d_permuted": ("conv2d_permuted", "permuted hidden dimensions"),
    "linear_18": ("linear_18", "18 weights, no kernel"),
    "additive": ("additive", "sum"),
}

FUSION, BOUND = ("arm", "tables"), ("arm", "binding")

TABLES: dict[str, Callable[[], Table]] = {
    "fusion/differences": partial(differences, "fusion/own", NINE),
    "fusion/trainings": partial(trainings, TRAININGS, NINE),
    "fusion/published_rate": partial(arms, "fusion/published_rate", FUSIONS, FUSION),
    "fusion/published_rate_differences": partial(differences, "fusion/published_rate", PUBLISHED),
    "fusion/own": partial(arms, "fusion/own", FUSIONS, FUSION),
    "fusion/own_first": partial(arms, "fusion/own_first", FUSIONS, FUSION),
    "fusion/phrases": partial(differences, "fusion/phrases", PHRASES),
    "pretrained/arms": partial(arms, "pretrained/runs", STARTS, ("arm", "start")),
    "pretrained/differences": partial(differences, "pretrained/runs", minus("additive", [*STARTS])),
    "embedded/arms": partial(arms, "embedded/fusion", EMBEDDED),
    "embedded/differences": partial(differences, "embedded/fusion", minus("additive", [*EMBEDDED])),
    "remedies/causes": partial(causes, "remedies/embedded"),
    "remedies/causes_fresh": partial(causes, "remedies/embedded_fresh"),
    "remedies/own_causes": partial(causes, "remedies/own"),
    "remedies/own_combinations": partial(combinations, "remedies/own"),
    "remedies/combinations": partial(combinations, "remedies/embedded"),
    "remedies/magnitudes": partial(differences, "remedies/embedded", MAGNITUDES),
    "remedies/arms": partial(arms, "remedies/embedded", REMEDIES, BOUND),
    "remedies/differences": partial(differences, "remedies/embedded", minus("fft", [*REMEDIES])),
    "remedies/causes_second": partial(causes, "remedies/embedded_second"),
    "remedies/combinations_fresh": partial(combinations, "remedies/embedded_fresh"),
    "remedies/magnitudes_fresh": partial(differences, "remedies/embedded_fresh", MAGNITUDES),
    "remedies/trainings": partial(
        trainings,
        {
            "remedies/embedded": "first: seeds 0–2",
            "remedies/embedded_second": "second: seeds 0–2 again",
            "remedies/embedded_fresh": "third: seeds 3–7",
        },
        (*MAGNITUDES, SCALED),
    ),
    "remedies/parts": partial(arms, "remedies/conv2d_parts", PARTS, ("arm", "kernel")),
    "remedies/parts_differences": partial(differences, "remedies/conv2d_parts", minus("conv2d", [*PARTS])),
    "remedies/own": partial(arms, "remedies/own", REMEDIES, BOUND),
    "remedies/readings": partial(
        readings,
        {
            "remedies/embedded": "generated, first",
            "remedies/embedded_second": "generated, second",
            "remedies/own": "SST-2",
        },
    ),
    "remedies/own_magnitudes": partial(differences, "remedies/own", MAGNITUDES),
    "remedies/own_differences": partial(differences, "remedies/own", minus("fft", [*REMEDIES])),
}
"""`<page>/<table>` → how to make it; first the tables of the page, then those beside it."""
