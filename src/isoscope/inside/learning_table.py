"""Measure how a probe's score grows with the number of training sentences."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from isoscope.geometry import probes
from isoscope.inside.trajectory import Trajectory


def learning_table(run: Trajectory, *, vectors: Sequence[str], seed: int, folds: int = 5) -> pd.DataFrame:
    """Return the label probe's score at the last layer of the chosen snapshot, by share of the training sentences.

    Trained on a quarter, half and all training sentences; the held-out sentences are the same. This shows whether a
    score needs more sentences, or other vectors.
    """
    arrays, labels = run.arrays(run.best), run.probe["label"].to_numpy()
    rows = []
    for name in (one for one in vectors if one in arrays.names and len(np.unique(labels)) > 1):
        layer = arrays.shape(name)[0] - 1
        groups = np.arange(len(labels))
        found = probes.learning_curve(arrays.layer(name, layer), labels, groups, seed=seed, folds=folds, strata=labels)
        for share, probe in found.items():
            size = {"trained": round(share * probe.n * (1 - 1 / folds)), "n": probe.n, "d": probe.d}
            rows.append({"vectors": name, "layer": layer, "score": probe.accuracy, "chance": probe.chance, **size})
    return pd.DataFrame(rows)
