"""How much of a decision lies in how few directions: [CLS] of the last layer rebuilt from some of its components.

As in SUFO (Hsu et al. 2024): the k leading principal components alone, or all but these, go through the trained pooler
and classifier.
"""

import numpy as np
import pandas as pd

from isoscope.analysis.trajectory import Arrays, Trajectory
from isoscope.geometry.moments import Floats

KEPT = (1, 2, 5, 10)


def rank_table(run: Trajectory) -> pd.DataFrame:
    """Accuracy on the probe set for each snapshot, from the k leading components (`kept`) and without them (`dropped`).

    `explained`: the share of variance in these k. Row k = 0 of `dropped` is the whole model. Empty where the head is
    not BERT's pooler and classifier, or the sentences have no classes.
    """
    labels = run.probe["label"].to_numpy()
    rows = []
    for snapshot in run.trained:
        arrays = run.arrays(snapshot)
        if "head_classifier" not in arrays.names or "first" not in arrays.names or labels.min() < 0:
            continue
        points = arrays.layer("first", arrays.shape("first")[0] - 1).astype(np.float64)
        mean = points.mean(0)
        left, values, right = np.linalg.svd(points - mean, full_matrices=False)
        share = np.cumsum(values**2) / max(float((values**2).sum()), 1e-300)
        for k in (0, *(k for k in KEPT if k < len(values))):
            top = mean + (left[:, :k] * values[:k]) @ right[:k]
            for what, cloud in (("kept", top), ("dropped", points - (top - mean))):
                if k or what == "dropped":
                    rows.append(
                        {
                            "snapshot": snapshot.name,
                            "step": snapshot.step,
                            "best": snapshot.best,
                            "components": what,
                            "k": k,
                            "accuracy": float((_logits(arrays, cloud).argmax(1) == labels).mean()),
                            "explained": float(share[k - 1]) if k else 0.0,
                            "n": len(points),
                        }
                    )
    return pd.DataFrame(rows)


def _logits(arrays: Arrays, points: Floats) -> Floats:
    """BERT's head: `C tanh(P x + p) + c`."""
    pooled = np.tanh(points @ arrays.whole("head_pooler").T + arrays.whole("head_pooler_bias"))
    found = pooled @ arrays.whole("head_classifier").T + arrays.whole("head_classifier_bias")
    return np.asarray(found, dtype=np.float64)
