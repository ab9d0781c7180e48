"""Whether arms differ inside: figures at the chosen epoch, paired by seed with the study's first arm."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from isoscope.analysis.statistics import holm, minimum_detectable_effect, paired_t

GEOMETRY = (
    *("linear_separability", "silhouette", "fisher_ratio", "clusters_ami_label", "arch_score"),
    *("avg_sim", "a_1", "a_1_centred", "effective_rank", "isoscore_unbiased", "two_nn_at_n"),
)

COLUMNS = [
    *("figure", "arm", "reference", "n", "mean_reference", "mean", "difference", "low", "high", "p", "detectable"),
    "p_holm",
]


def chosen_figures(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The figures that arms are compared by, each run's at its chosen epoch: arm, seed, figure, value.

    Of [CLS] at the last layer its geometry and what probes read; of the embedding block's tokens their mean cosine,
    whose neighbours they are, and what is read back from them.
    """
    found = pd.concat(list(_parts(tables)), ignore_index=True)
    return found[np.isfinite(found["value"])].reset_index(drop=True)


def _parts(tables: Mapping[str, pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for name, figure, value, chosen in (
        ("geometry", "figure", "value", lambda table: table["figure"].isin(GEOMETRY) & (table["vectors"] == "first")),
        ("probing", "task", "score", lambda table: table["vectors"] != "mean"),
        ("cosines", "pairs", "cosine", lambda table: table["part"] == "normed"),
        ("neighbours", "neighbours", "rate", lambda table: table["part"] == "normed"),
        ("decoding", "read", "rate", lambda table: table["part"] == "normed"),
    ):
        if name not in tables or tables[name].empty:
            continue
        table = tables[name]
        rows = table[table["best"] & chosen(table)]
        if "layer" in rows:
            rows = rows[rows["layer"] == rows["layer"].max()]
        yield pd.DataFrame(
            {"arm": rows["arm"], "seed": rows["seed"], "figure": CALLED[name] + rows[figure], "value": rows[value]}
        )


CALLED = {
    "geometry": "",
    "probing": "probe: ",
    "cosines": "tokens' cosine: ",
    "neighbours": "tokens' neighbours: ",
    "decoding": "read back: ",
}


WHERE = " where "
"""Parts a metric from the circumstances that a figure of it is taken under."""


def differences(
    figures: pd.DataFrame, *, confidence: float, power: float, against: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Each arm's figures less its reference's over the seeds both have: mean, paired-t interval, p, what is detectable.

    Columns figure, arm, reference, n (seeds), mean_reference, mean, difference, low, high, p, p_holm, detectable.
    `against`: arm → reference (None: the first arm, for all); one that is its own has no rows, nor one whose reference
    was not measured. p is corrected by Holm over a family, a task and a metric: over all arms of a figure, and all
    circumstances (`WHERE`) of a metric. Fewer than three seeds give no interval.
    """
    against = dict.fromkeys(figures["arm"], figures["arm"].iloc[0]) if against is None else against
    wide = figures.pivot_table(index="figure", columns=["arm", "seed"], values="value", sort=False)
    rows = []
    for figure, values in wide.iterrows():
        for arm in dict.fromkeys(figures["arm"]):
            first = against[arm]
            if arm == first or first not in values:
                continue
            pairs = pd.concat([values[first], values[arm]], axis=1, keys=["reference", "arm"]).dropna()
            if pairs.empty:
                continue
            test = paired_t((pairs["arm"] - pairs["reference"]).tolist(), confidence=confidence)
            effect = minimum_detectable_effect(test.n, confidence=confidence, power=power) if test.n > 2 else np.nan
            rows.append(
                {
                    "figure": figure,
                    "arm": arm,
                    "reference": first,
                    "n": test.n,
                    "mean_reference": pairs["reference"].mean(),
                    "mean": pairs["arm"].mean(),
                    "difference": test.mean,
                    "low": test.interval.low if test.interval else np.nan,
                    "high": test.interval.high if test.interval else np.nan,
                    "p": np.nan if test.p is None else test.p,
                    "detectable": effect * test.sd if test.sd else np.nan,
                }
            )
    found = pd.DataFrame(rows, columns=COLUMNS)
    metric = found["figure"].map(lambda figure: figure.partition(WHERE)[0])
    for _, family in found[found["p"].notna()].groupby(metric, sort=False):
        found.loc[family.index, "p_holm"] = holm(family["p"].tolist())
    return found
