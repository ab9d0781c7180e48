"""Verdicts on the ranks of components by how often they hurt, next to the table of Vázquez et al. 2022."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.platform.results.published import FAIL, PASS, UNDERPOWERED, published
from isoscope.platform.statistics.paired import FEWEST_SEEDS, NO_VERDICT, Verdict, holm
from isoscope.studies.dynamics.learning import TRAINED

PUBLISHED = published(Path(__file__).parent)


def with_verdicts(compared: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Return `hurting_counts.compared` with p_holm, verdict, reason, and whether the row decides the exit code.

    p_holm: by Holm over the arms of a counting. The minibatch estimator is the likely published estimator, so its rows
    decide.
    """
    if not len(compared):
        return compared
    by_counting = compared["p"].astype(float).groupby(compared["counted"], sort=False)
    found = compared.assign(p_holm=by_counting.transform(lambda p: holm(p.to_numpy())))
    verdicts = [judged(row, confidence) for row in found.to_dict("records")]
    words, reasons = zip(*verdicts, strict=True)
    return found.assign(verdict=words, reason=reasons, decides=found["counted"] == PUBLISHED["decides"])


def judged(row: Mapping[str, Any], confidence: float) -> Verdict:
    """Return the verdict on a row of `hurting_counts.compared` with p_holm.

    - *no verdict*: the arm is not trained.
    - *under-powered*: fewer than 3 seeds; or no order of these counts, with their ties, reaches p ≤ 1 − `confidence`;
      or p after Holm is larger than that.
    - *pass*: tau > 0 with p after Holm ≤ 1 − `confidence` (exact, two-sided).
    - *fail*: tau < 0 with such a p: the order is rather the reverse.
    """
    level = 1 - confidence + 1e-9
    if row["word"] != TRAINED:
        return Verdict(NO_VERDICT, str(row["word"]))
    tau, p, least = (float(row[name]) for name in ("tau", "p_holm", "least"))
    if row["n"] < FEWEST_SEEDS:
        return Verdict(UNDERPOWERED, f"{row['n']} seed{'s' * (row['n'] != 1)}: no verdict below {FEWEST_SEEDS}")
    if math.isnan(tau + p + least):
        return Verdict(UNDERPOWERED, "all components hurt equally often")
    if least > level:
        return Verdict(UNDERPOWERED, f"no order of {row['components']} components with these ties has p ≤ {level:.2g}")
    if p > level:
        return Verdict(UNDERPOWERED, f"no clear order: p > {level:.2g}")
    if tau > 0:
        return Verdict(PASS, f"the ranks agree (τ > 0, p ≤ {level:.2g})")
    return Verdict(FAIL, f"the ranks are rather reversed (τ < 0, p ≤ {level:.2g})")
