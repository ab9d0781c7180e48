"""The tables of stsb.md: a regression on STS-B with penalties, and its sentence vectors with and without transforms."""

import numpy as np
import pandas as pd
from judged import MARGIN, POWER, VERDICT, Tested, verdicts
from per_run import by_item, by_seed, stored
from written import CONFIDENCE, NONE, Table, short, spread

from isoscope.platform.statistics.paired import two_way_interval
from isoscope.studies.arms import BASELINES
from isoscope.studies.transformed import CALLED, compared

ARMS = {
    "none": "no penalty",
    "all": "persistent entropy, all bars",
    "cosine": "cosine",
    "isoscore": "IsoScore\\*",
}
REFERENCE = "none"
METRICS = {"spearman": "Spearman", "pearson": "Pearson", "rmse": "RMSE"}


def of_arms(metric: str) -> dict[str, dict[int, float]]:
    """Return penalty → seed → value of a metric of the test split."""
    return {arm.removeprefix("additive-"): own for arm, own in by_seed("stsb/runs", f"test/{metric}").items()}


def arms() -> Table:
    """Return a row per arm and baseline: Spearman by seed, and the mean of each metric over seeds."""
    found = {metric: of_arms(metric) for metric in METRICS}
    rows: list[tuple[object, ...]] = []
    for arm, label in ARMS.items():
        own = found["spearman"][arm]
        cells = [spread(found[metric][arm].values()) for metric in METRICS]
        rows.append((label, len(own), ", ".join(map(short, own.values())), *cells))
    table = stored("stsb/runs.csv")
    table = table[table["seed"].isna()].pivot(index="arm", columns="metric", values="value")
    logged = stored("stsb/runs.csv")
    logged = logged[(logged["arm"] == f"additive-{REFERENCE}") & logged["metric"].str.startswith("baseline/")]
    means = logged.groupby("metric")["value"].mean()
    for name in ("mean_score", "tfidf_unigrams", "tfidf_bigrams", "word_overlap"):
        rows.append((f"*{BASELINES[name]}*", "", "", *(short(table.loc[name, f"test/{one}"]) for one in METRICS)))
    frozen = [short(means[f"baseline/frozen_head/{one}"]) for one in METRICS]
    rows.append((f"*{BASELINES['frozen_head']}*", "", "", *frozen))
    return Table(("arm", "seeds", "Spearman, for each seed", *METRICS.values()), rows)


def differences() -> Table:
    """Return each penalty minus no penalty in Spearman's ρ on test, with its verdict; a family."""
    values, items = of_arms("spearman"), by_item("stsb/predictions", "spearman")
    family, titles = [], []
    for arm in (one for one in ARMS if one != REFERENCE):
        seeds = [seed for seed in values[arm] if seed in values[REFERENCE]]
        own, other = (np.array([values[one][seed] for seed in seeds]) for one in (arm, REFERENCE))
        shares = [np.stack([items[f"additive-{one}/{seed}"] for seed in seeds]) for one in (arm, REFERENCE)]
        two_way = two_way_interval(shares[0] - shares[1], confidence=CONFIDENCE)
        above = [float(own.mean()), float(other.mean())]  # a constant prediction has no correlation
        family.append(Tested([*(own - other)], two_way, above, scale=float(np.abs(other).max())))
        titles.append(f"{ARMS[arm]} − {ARMS[REFERENCE]}")
    cells = verdicts(family, short, claims=False)
    return Table(
        ("difference of Spearman's ρ", *VERDICT), [(one, *own) for one, own in zip(titles, cells, strict=True)]
    )


def transforms(vectors: str = "pairs_mean", metric: str = "sts") -> Table:
    """Return each arm after each transform: mean ± sd, and its difference from no penalty without a transform."""
    every = stored("stsb/transformed.csv")
    every = every[(every["vectors"] == vectors) & (every["metric"] == metric)]  # a family
    table = every[every["seed"].notna()]
    against = dict.fromkeys(table["arm"].unique(), f"additive-{REFERENCE}")
    found = compared(table, against, confidence=CONFIDENCE, power=POWER, margin=MARGIN)
    start = every[every["seed"].isna()]
    rows = [
        ("*before training*", CALLED[name], "", short(value), *[NONE] * 4)
        for name, value in zip(start["transform"], start["value"], strict=True)
    ]
    for row in found.to_dict("records"):
        arm = ARMS[row["arm"].removeprefix("additive-")]
        between = NONE if pd.isna(row["low"]) else f"[{short(row['low'], True)}, {short(row['high'], True)}]"
        difference = NONE if pd.isna(row["difference"]) else short(row["difference"], True)
        p = NONE if pd.isna(row["p_holm"]) else short(row["p_holm"])
        verdict = "*reference*" if row["verdict"] == "reference" else f"*{row['verdict']}*: {row['reason']}"
        mean = f"{short(row['mean'])} ± {short(row['sd'])}"
        rows.append((arm, CALLED[row["transform"]], row["seeds"], mean, difference, between, p, verdict))
    return Table(("arm", "transform", "seeds", "mean ± sd", "difference", "over seeds", "p (Holm)", "verdict"), rows)


TABLES = {
    "stsb/arms": arms,
    "stsb/differences": differences,
    "stsb/transforms": transforms,
    "stsb/anisotropy": lambda: transforms("mean", "a_1"),
    "stsb/first": lambda: transforms("pairs_first"),
}
