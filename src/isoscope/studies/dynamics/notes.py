"""What every caption of an allocation says: seeds, set, estimator, open intervals, arms that did not learn."""

import pandas as pd

from isoscope.studies.dynamics.allocated_runs import SHOWN
from isoscope.studies.dynamics.learning import NOT

SIGN = "Negative helps: it lowers the loss. Positive hurts."


def seeds(learning: pd.DataFrame) -> str:
    """Return `n = 3 seeds`, or the number of each arm if they differ; below three seeds, that there is no interval."""
    counts = learning.groupby("arm", sort=False)["seed"].nunique()
    if counts.nunique() == 1:
        n = int(counts.iloc[0])
        text = f"n = {n} seed{'s' * (n != 1)}"
    else:
        text = "n = " + ", ".join(f"{n} ({arm})" for arm, n in counts.items())
    return text + (", so no interval." if counts.max() < 3 else ".")


def shown(closure: pd.DataFrame) -> str:
    """Return the set and the estimator of the figure, and which intervals are open."""
    own = closure[closure["set"] == SHOWN]
    estimator = ", ".join(dict.fromkeys(own["estimator"]))
    return f"Fixed validation sentences, estimator {estimator}. {closure_note(own)}"


def closure_note(own: pd.DataFrame) -> str:
    """Return a sentence on the open intervals of some rows of `closed`: how many, and of which runs."""
    intervals, beyond = int(own["intervals"].sum()), int(own["open"].sum())
    text = f"All {intervals} intervals are closed."
    if beyond:
        by_arm = own.groupby(["arm", "set"], sort=False)[["open", "intervals"]].sum().reset_index()
        found = [f"{row.arm} {row.open} of {row.intervals} ({row.set})" for row in by_arm.itertuples() if row.open]
        text = f"{beyond} of {intervals} intervals are open (the sum is beyond its bound): {', '.join(found)}."
    gaps = [
        f"{row.arm} seed {row.seed} ({row.set}, {row.gap:+.3f} nats)".replace("-0.", "−0.")
        for row in own.itertuples()
        if not row.total_closed
    ]
    return text + (f" Open over all of training: {', '.join(gaps)}." if gaps else "")


def untrained(learning: pd.DataFrame) -> str:
    """Return a sentence that names arms that did not learn; empty if all did."""
    arms = list(dict.fromkeys(learning.loc[learning["word"] == NOT, "arm"]))
    return f"Not trained, so without a verdict: {', '.join(arms)}." if arms else ""


def joined(*sentences: str) -> str:
    """Join the sentences that are not empty."""
    return " ".join(text for text in sentences if text)
