"""The tables of isotropy.md: penalties on MRPC and no penalty: scores, anisotropy at the end of training, weights."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
from fusion_tables import difference
from judged import VERDICT, Tested, apart, verdicts
from per_run import by_seed, seeds_of, stored
from written import Table, short, spread

from isoscope.studies.isotropy.reproduction import PUBLISHED

RUNS = "isotropy/mrpc"
NONE, SELECTED = "additive-none", "additive-selected_mrpc"
ARMS = {
    NONE: "none",
    SELECTED: "selected",
    "additive-all_mrpc": "all",
    "additive-random_k_mrpc": "random_k",
    "additive-top_5": "top_5",
}
"""Arm → its bars, as on the page."""
BATCH, CENTRED, WITHIN = "step/a_1", "step/a_1_centred", "validation/a_1_within"
STS = "sts"
FROZEN = "baseline/frozen_head/"
"""A linear head on the encoder before training: the same in every run."""
CALLED = {
    "test/accuracy": "test accuracy",
    "test/f1": "test F1",
    "test/matthews": "test Matthews",
    BATCH: "a₁ of batches",
    CENTRED: "a₁ of batches, mean removed",
    "validation/a_1": "a₁ of validation",
    "validation/a_1_centred": "a₁ of validation, mean removed",
    WITHIN: "a₁ within classes",
    STS: "STS ρ",
}
MAPS = {"untouched": "none", "all_but_the_top": "all but the top", "whitened": "whitened"}


def values(metric: str) -> dict[str, dict[int, float]]:
    """Return arm → seed → value: after training, the average at its end (step, validation), or the STS correlation."""
    if metric.startswith(("test/", "posthoc/")):
        return by_seed(RUNS, metric)
    if metric == STS:
        rows = stored("isotropy/mrpc_transformed.csv")
        rows = rows[(rows["metric"] == "sts") & (rows["vectors"] == "pairs_mean") & (rows["transform"] == "none")]
    else:
        rows = stored("isotropy/mrpc_averages.csv")
        rows = rows[rows["metric"] == metric]
    return seeds_of(rows)


def tested(metric: str, arm: str, reference: str) -> Tested:
    """Return an arm minus a reference, by seed. Test scores have an interval over sentences, too."""
    if metric.startswith("test/"):
        return difference(RUNS, arm, reference, metric.removeprefix("test/"))
    one, other = (values(metric)[name] for name in (arm, reference))
    return apart(one, other, items=False)


def differences(metrics: Sequence[str], of_selected: str) -> Table:
    """Return each penalty minus none by metric (a family each), and *selected* minus the others in one (a family)."""
    families = [(metric, [(arm, NONE) for arm in ARMS if arm != NONE]) for metric in metrics]
    families.append((of_selected, [(SELECTED, arm) for arm in ARMS if arm not in (NONE, SELECTED)]))
    rows = []
    for metric, pairs in families:
        judged = verdicts([tested(metric, *pair) for pair in pairs], short, claims=False)
        rows += [
            (CALLED[metric], f"{ARMS[one]} − {ARMS[other]}", *cells)
            for (one, other), cells in zip(pairs, judged, strict=True)
        ]
    return Table(("of", "difference", *VERDICT), rows)


def arms() -> Table:
    """Return a row per arm: weight, test scores, the STS correlation, and the time of a run."""
    chosen, rows = weight(), []
    seconds = by_seed(RUNS, "training/seconds")
    for arm, bars in ARMS.items():
        scores = [spread(values(f"test/{metric}")[arm].values()) for metric in ("accuracy", "f1", "matthews")]
        minutes = np.median([*seconds[arm].values()]) / 60
        about = bars, chosen.get(bars, ""), len(values("test/accuracy")[arm])
        rows.append((*about, *scores, spread(values(STS)[arm].values()), f"{minutes:.0f}"))
    baselines = stored(f"{RUNS}.csv")
    frozen = baselines[baselines["metric"].str.startswith(FROZEN)].drop_duplicates("metric")
    frozen = frozen.assign(arm="frozen encoder, linear head", metric=frozen["metric"].str.replace(FROZEN, "test/"))
    for name, own in pd.concat([baselines[baselines["seed"].isna()], frozen]).groupby("arm"):
        known = dict(zip(own["metric"], own["value"], strict=True))
        scores = [short(known[f"test/{metric}"]) for metric in ("accuracy", "f1", "matthews")]
        rows.append((f"*{str(name).replace('_', ' ')}*", "", "", *scores, "", ""))
    heads = ("bars of the penalty", "weight", "seeds", "test accuracy", "test F1", "Matthews", "STS ρ", "minutes")
    return Table(heads, rows)


def anisotropy() -> Table:
    """Return the shares of the largest directions by arm, beside the published shares of Table 3 for BERT."""
    rows = []
    for arm, bars in ARMS.items():
        cells = [
            f"{spread(values(metric)[arm].values())}{_published(bars, metric.removeprefix('step/'))}"
            for metric in (BATCH, "step/a_2", "step/a_3", CENTRED)
        ]
        rows.append((bars, *cells, *(spread(values(f"validation/{one}")[arm].values()) for one in VALIDATION)))
    heads = ("a₁", "a₂", "a₃", "a₁, mean removed")
    return Table(
        ("bars", *(f"{one}: batches" for one in heads), *(f"{one}: validation" for one in VALIDATION.values())), rows
    )


VALIDATION = {"a_1": "a₁", "a_1_centred": "a₁, mean removed", "a_1_within": "a₁ within classes"}


def _published(bars: str, metric: str) -> str:
    place, known = PUBLISHED["metrics"].index(metric), PUBLISHED["values"]["bert"]["mrpc"]
    return f" ({short(known[bars][place])})" if bars in known else ""


def order() -> Table:
    """Return in how many seeds a₁ has the published order none > all > selected, and each step of it."""
    rows = []
    for metric in (BATCH, CENTRED):
        found = values(metric)
        steps = [*pairwise((NONE, "additive-all_mrpc", SELECTED))]
        seeds = [*found[NONE]]
        right = np.array([[found[one][seed] > found[other][seed] for one, other in steps] for seed in seeds])
        rows.append((CALLED[metric], *(f"{count} of {len(seeds)}" for count in (*right.sum(0), right.all(1).sum()))))
    return Table(("of", "none > all", "all > selected", "both"), rows)


def after_training() -> Table:
    """Return a₁ of the test split and what a ridge classifier reads, after maps that need no training."""
    rows = []
    for arm, bars in ARMS.items():
        for name, title in MAPS.items():
            metrics = ("a_1", "a_1_centred", "ridge_accuracy", "ridge_f1", "neighbour_accuracy")
            cells = [spread(values(f"posthoc/{name}/{one}")[arm].values()) for one in metrics]
            rows.append((bars, title, *cells))
    heads = ("a₁", "a₁, mean removed", "ridge: accuracy", "ridge: F1", "neighbours: accuracy")
    return Table(("bars", "map", *heads), rows)


def trials() -> Table:
    """Return validation accuracy of each penalty by weight: trials of four epochs, one seed."""
    table = stored("isotropy/mrpc_weights.csv").pivot(index="bars", columns="weight", values="accuracy")
    heads = [f"{one:g}" for one in table]
    return Table(
        ("bars", *heads), [(bars, *map(short, own)) for bars, own in zip(table.index, table.values, strict=True)]
    )


def precision() -> Table:
    """Return scores and a₁ of a run in fp32, of the same seed in bf16, and of all seeds in bf16."""
    once = stored("isotropy/mrpc_fp32.csv")
    ((arm, seed),) = {(str(arm), int(seed)) for arm, seed in once[["arm", "seed"]].to_numpy()}
    rows = []
    for metric, value in zip(once["metric"], once["value"], strict=True):
        known = values(metric)[arm]
        rows.append((CALLED[metric], short(value), short(known[seed]), spread(known.values())))
    return Table(("of", "fp32", "bf16", "bf16, all seeds"), rows)


def weight() -> dict[str, str]:
    """Return bars → the weight with the highest validation accuracy, the smallest if several are equal."""
    table = stored("isotropy/mrpc_weights.csv").sort_values("weight")
    return {str(bars): f"{own.loc[own['accuracy'].idxmax(), 'weight']:g}" for bars, own in table.groupby("bars")}


TABLES: dict[str, Callable[[], Table]] = {
    "isotropy/arms": arms,
    "isotropy/anisotropy": anisotropy,
    "isotropy/costs": partial(differences, ("test/accuracy", "test/f1", STS), "test/accuracy"),
    "isotropy/changes": partial(differences, (BATCH, CENTRED, WITHIN), CENTRED),
    "isotropy/order": order,
    "isotropy/after_training": after_training,
    "isotropy/trials": trials,
    "isotropy/precision": precision,
}
