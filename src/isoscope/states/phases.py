"""Name the phases of a training run: thresholds on the last layer's [CLS] classify each snapshot.

Separability is the held-out accuracy of a linear probe for the label; the best is the run's maximum. In this order:

Unstructured            separability is within `chance` standard errors of chance.
Maximum separation      separability is within `best` standard errors of the best.
Entering structure      before the best snapshot.
Late homogenisation     after it: at least the share `fall` of the best above chance is lost, and AvgSim is higher.
Morphological changes   after it, otherwise.

The names are those of Li 2025 (fusion). A phase may be absent. The boundary between two phases is no finding: a smooth
learning curve passes the thresholds, too.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

NEEDED = ("linear_separability", "avg_sim")
"""Measures of [CLS] that define the phases."""


def named(geometry: pd.DataFrame, labels: npt.ArrayLike, *, chance: float, best: float, fall: float) -> pd.DataFrame:
    """Return the phase of each snapshot of one run, by step: snapshot, step, the measures `NEEDED`, phase.

    `geometry`: the run's table of measures; snapshots that lack either measure are left out. `labels` of the probe set
    `[n]` give chance (the largest class). The standard error of a share p is √(q(1 − q)/(n + 4)) with q = (n p + 2)/(n
    + 4) (Agresti and Coull 1998), which is not 0 at p = 1.
    """
    rows = geometry[(geometry["vectors"] == "first") & geometry["step"].notna()]
    rows = rows[(rows["layer"] == rows["layer"].max()) & rows["metric"].isin(NEEDED)]
    table = rows.pivot_table(index=["step", "snapshot"], columns="metric", values="value", sort=False)
    table = table.reindex(columns=list(NEEDED)).dropna().sort_index(level="step").reset_index()
    if table.empty:
        return table.assign(phase=[])
    score, similarity = (table[name].to_numpy(dtype=float) for name in NEEDED)
    counts = np.bincount(np.asarray(labels, dtype=np.int64))
    n, guess = counts.sum(), counts.max() / counts.sum()
    peak, top = int(score.argmax()), score.max()
    later = np.arange(len(score)) > peak
    fallen = (score - guess <= (1 - fall) * (top - guess)) & (similarity > similarity[peak])
    phase = np.where(later, np.where(fallen, "Late homogenisation", "Morphological changes"), "Entering structure")
    phase[score >= top - best * _error(top, n)] = "Maximum separation"
    phase[score <= guess + chance * _error(guess, n)] = "Unstructured"
    return table.assign(phase=phase)


def _error(share: float, n: float) -> float:
    near = (n * share + 2) / (n + 4)
    return float(np.sqrt(near * (1 - near) / (n + 4)))


def phases(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Summarise the result of `named`: an entry per phase in the order of their first snapshots.

    Its name, number of snapshots, first and last step, and means of separability and AvgSim.
    """
    return [
        {
            "name": name,
            "snapshots": len(own),
            "step_first": int(own["step"].min()),
            "step_last": int(own["step"].max()),
            "separability": float(own["linear_separability"].mean()),
            "avg_sim": float(own["avg_sim"].mean()),
        }
        for name, own in table.groupby("phase", sort=False)
    ]
