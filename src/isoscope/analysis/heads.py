"""Attention over training: what each head looks at, and how far heads agree with themselves at the chosen epoch."""

import numpy as np
import pandas as pd

from isoscope.analysis.trajectory import Trajectory
from isoscope.geometry.attention import AttentionSummary, head_agreement


def attention_table(run: Trajectory) -> pd.DataFrame:
    """A row for each snapshot, layer (1 … L) and head: means over sentences, their sd, and n.

    `agreement`: 1 − Jensen–Shannon divergence of the head's attention here and at the chosen epoch; `between`: of the
    head with the other heads of its layer, here.
    """
    reference = run.arrays(run.best)
    kept = sorted(name for name in reference.names if name.startswith("attention_map_"))
    best = {name: reference.whole(name) for name in kept}
    rows = []
    for snapshot in run.snapshots:
        arrays = run.arrays(snapshot)
        summaries = {name: arrays.whole(f"attention_{name}") for name in AttentionSummary._fields}
        maps = {name: arrays.whole(name) for name in kept}
        agreement = np.mean([head_agreement(maps[name], best[name]) for name in kept], axis=0) if kept else None
        layers, heads, sentences = summaries["entropy"].shape
        for layer in range(layers):
            for head in range(heads):
                others = [other for other in range(heads) if other != head]
                between = [
                    float(head_agreement(maps[name][layer, head], maps[name][layer, others]).mean())
                    for name in kept
                    if others
                ]
                rows.append(
                    {
                        "snapshot": snapshot.name,
                        "step": snapshot.step,
                        "best": snapshot.best,
                        "layer": layer + 1,
                        "head": head,
                        **{name: float(values[layer, head].mean()) for name, values in summaries.items()},
                        **{
                            f"{name}_sd": float(values[layer, head].std(ddof=1)) if sentences > 1 else float("nan")
                            for name, values in summaries.items()
                        },
                        "agreement": None if agreement is None else float(agreement[layer, head]),
                        "between": sum(between) / len(between) if between else None,
                        "n": sentences,
                    }
                )
    return pd.DataFrame(rows).astype({"step": "Int64"})
