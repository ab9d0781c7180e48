"""Test whether arms differ in metrics, paired by seed with the study's first arm."""

import math
from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd

from isoscope.platform.statistics.paired import Paired, in_family, paired_t

COLUMNS = [
    *("metric", "arm", "reference", "n", "mean_reference", "mean", "difference", "sd", "low", "high", "p"),
    *("family", "tests", "p_holm", "detectable", "dropped"),
]
_NUMBERS = ("sd", "low", "high", "p", "tests", "p_holm", "detectable")

WHERE = " where "
"""Separates a metric's name from the conditions of the measurement."""


def differences(
    metrics: pd.DataFrame,
    *,
    confidence: float,
    power: float,
    against: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Test each arm's metrics minus its reference's over common seeds: mean, paired-t interval, p, detectable effect.

    Columns metric, arm, reference, n (seeds), mean_reference, mean, difference, sd (of the difference), low, high, p,
    family, tests, p_holm, detectable, dropped.

    - `against`: arm → reference (None: the first arm, for all). An arm that is its own reference has no rows; nor has
      an arm whose reference was not measured.
    - p is corrected by Holm over a `family`, a metric of the task: all arms of a metric, and all conditions (`WHERE`)
      of a metric. `tests` is the number of tests in the family.
    - `detectable` is for Holm's first step.
    - Fewer than three seeds give no interval.
    - `dropped` counts common seeds at which an arm has no finite value. The remaining seeds are then selected by the
      outcome, so their difference has no interval and no test. If none remains, there is no difference.
    """
    against = dict.fromkeys(metrics["arm"], metrics["arm"].iloc[0]) if against is None else against
    numbers = metrics["value"].astype(float)
    finite = metrics.assign(value=numbers.where(np.isfinite(numbers)))
    rows, tests = [], []
    for (metric, own), arm in product(finite.groupby("metric", sort=False), dict.fromkeys(metrics["arm"])):
        values = own.groupby(["arm", "seed"])["value"].agg(lambda same: same.mean(skipna=False))
        first, measured = against[arm], set(own["arm"])
        if arm == first or not {arm, first} <= measured:
            continue
        both = pd.concat([values[first], values[arm]], axis=1, keys=["reference", "arm"], join="inner")
        pairs = both.dropna()
        if both.empty:
            continue
        test = Paired(0, math.nan, None, None, None)
        if len(pairs):
            scale = float(pairs.abs().max(axis=None))
            test = paired_t((pairs["arm"] - pairs["reference"]).tolist(), confidence=confidence, scale=scale)
        if lost := len(both) - len(pairs):
            test = test._replace(interval=None, p=None)
        tests.append(test)
        low, high = test.interval or (None, None)
        rows.append(
            {
                "metric": metric,
                "arm": arm,
                "reference": first,
                "n": test.n,
                "mean_reference": pairs["reference"].mean(),
                "mean": pairs["arm"].mean(),
                "difference": test.mean,
                "sd": test.sd,
                "low": low,
                "high": high,
                "p": test.p,
                "family": str(metric).partition(WHERE)[0],
                "dropped": lost,
            }
        )
    found = pd.DataFrame(rows, columns=COLUMNS).astype(dict.fromkeys(_NUMBERS, float))
    for _, family in found.groupby("family", sort=False):
        corrected = in_family([tests[row] for row in family.index], confidence=confidence, power=power)
        found.loc[family.index, "tests"] = family["p"].notna().sum()
        found.loc[family.index, ["p_holm", "detectable"]] = np.array(corrected, dtype=float)
    return found
