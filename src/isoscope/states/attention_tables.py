"""Attention over training: summaries per head, and agreement of heads with the chosen epoch and with other runs."""

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

from isoscope.geometry.attention import AttentionSummary, head_agreement
from isoscope.geometry.moments import Floats
from isoscope.states.trajectory import Rows, Snapshot, Trajectory, tabled

Key = tuple[str, int]
"""Arm and seed of a run."""


@tabled
def attention_table(run: Trajectory) -> Iterator[Rows]:
    """Build a row for each snapshot with attention, layer (1 … L) and head: means over sentences, their sd, and n.

    `agreement`: 1 − Jensen–Shannon divergence of the head's attention at this snapshot and at the chosen epoch.
    `between`: the same between the head and the other heads of its layer, at this snapshot.
    """
    best = _maps(run, run.best)
    for snapshot in run.snapshots:
        arrays = run.arrays(snapshot)
        if "attention_entropy" not in arrays.names:  # weights of the random twin may not sum to 1
            continue
        summaries = {name: arrays.whole(f"attention_{name}") for name in AttentionSummary._fields}
        maps = {name: arrays.whole(name) for name in best}
        agreement = np.mean([head_agreement(maps[name], best[name]) for name in best], axis=0) if best else None
        layers, heads, sentences = summaries["entropy"].shape
        for layer, head in np.ndindex(layers, heads):
            others = [other for other in range(heads) if other != head]
            between = [
                float(head_agreement(one[layer, head], one[layer, others]).mean()) for one in maps.values() if others
            ]
            values = {name: of[layer, head] for name, of in summaries.items()}
            yield {
                **snapshot.who,
                "layer": layer + 1,
                "head": head,
                **{name: float(of.mean()) for name, of in values.items()},
                **{f"{name}_sd": float(of.std(ddof=1)) if sentences > 1 else np.nan for name, of in values.items()},
                "agreement": None if agreement is None else float(agreement[layer, head]),
                "between": sum(between) / len(between) if between else None,
                "n": sentences,
            }


def arm_heads(runs: Mapping[Key, Trajectory]) -> pd.DataFrame:
    """Return how far the heads of two runs agree at the chosen epoch, by layer: differ, arm, seed, other, other_seed.

    `differ`: what the runs differ in. `arms`: the fusion; the seed is the same. `seeds`: the seed only. `random`:
    training; the other run is the first run's random-weights control.

    Heads of two runs have no correspondence. So the heads of a layer are paired for best agreement (Kuhn 1955), on the
    whole maps of the same sentences. `agreement`: 1 − Jensen–Shannon divergence, mean over the pairs. `unpaired`: mean
    over all pairs of heads of the layer. Agreement between arms above `unpaired` and above `differ` = `random` is
    learned. A difference larger than that between two `seeds` of one arm belongs to the arm. `heads`: pairs; `n`:
    sentences.

    Only layers that both runs have, and only runs whose maps are of the same tokens: with another tokenizer or maximum
    length they have no correspondence. Empty without whole maps.
    """
    maps = {key: _maps(run, run.best) for key, run in runs.items()}
    twins = {key: _maps(run, run.twin) for key, run in runs.items() if run.twin}
    rows = []
    for differ, key, against in _pairs(list(runs)):
        one, other = maps[key], (twins if differ == "random" else maps)[against]
        if not one or _sizes(one) != _sizes(other):
            continue
        who = {"differ": differ, **dict(zip(("arm", "seed", "other", "other_seed"), (*key, *against), strict=True))}
        depth = min(len(next(iter(several.values()))) for several in (one, other))
        each = [head_agreement(one[name][:depth, :, None], other[name][:depth, None]) for name in one]
        for layer, agreement in enumerate(np.mean(each, axis=0), start=1):
            best = agreement[linear_sum_assignment(agreement, maximize=True)]
            found = {"agreement": float(best.mean()), "unpaired": float(agreement.mean()), "heads": len(best)}
            rows.append({**who, "layer": layer, **found, "n": len(each)})
    return pd.DataFrame(rows)


def _maps(run: Trajectory, snapshot: Snapshot) -> dict[str, Floats]:
    """Return whole attention maps `[L, H, T, T]` by sentence."""
    arrays = run.arrays(snapshot)
    return {
        name: arrays.whole(name).astype(np.float64)
        for name in sorted(arrays.names)
        if name.startswith("attention_map_")
    }


def _sizes(maps: Mapping[str, Floats]) -> dict[str, int]:
    """Return the number of tokens of each map."""
    return {name: one.shape[-1] for name, one in maps.items()}


def _pairs(keys: list[Key]) -> Iterator[tuple[str, Key, Key]]:
    """Yield what two runs differ in, and both."""
    for one, other in combinations(keys, 2):
        if one[1] == other[1]:
            yield "arms", one, other
        elif one[0] == other[0]:
            yield "seeds", one, other
    yield from (("random", key, key) for key in keys)
