"""Tables that compare the hidden states of all arms, from the first seed of each arm."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from isoscope.geometry.contextuality import units
from isoscope.geometry.kernels import frequency_response
from isoscope.inside.embedding_tables import joint_map
from isoscope.inside.trajectory import Snapshot, Trajectory

Key = tuple[str, int]
"""Arm and seed of a run."""
COLUMNS, ROWS = 6, 5
"""Number of snapshots and of layers in a figure of feature dynamics."""
TOGETHER = 1200
"""Number of tokens of all arms in a map; it bounds the cost of studies with many arms."""


def first_seeds(runs: Mapping[Key, Trajectory]) -> dict[str, Trajectory]:
    """Return the first seed of each arm, in the order of the arms."""
    found: dict[str, Trajectory] = {}
    for (arm, _), run in runs.items():
        found.setdefault(arm, run)
    return found


def moments(run: Trajectory) -> dict[str, Snapshot]:
    """Return the snapshots at which arms are compared."""
    return {"first": run.trained[0], "chosen": run.best}


def shown_planes(
    runs: Mapping[Key, Trajectory], planes: Mapping[Key, pd.DataFrame], classes: Sequence[str]
) -> pd.DataFrame:
    """Return coordinates of `planes` at a few snapshots and layers, with the label and class of each sentence.

    Snapshots are spread from the first to the last; the chosen snapshot is included.
    """
    found = []
    for arm, run in first_seeds(runs).items():
        seed = next(seed for other, seed in runs if other == arm)
        points, order = planes[arm, seed], run.trained
        at = {*_spread(len(order), COLUMNS), order.index(run.best)}
        depth = run.arrays(run.best).shape("first")[0]
        shown = points[
            points["snapshot"].isin([order[place].name for place in at]) & points["layer"].isin(_spread(depth, ROWS))
        ]
        labels = run.probe["label"].to_numpy()[shown["sentence"]]
        named = [classes[label] for label in labels]
        found.append(shown.assign(arm=arm, seed=seed, label=labels, **{"class": named}))
    return pd.concat(found, ignore_index=True)


def _spread(count: int, most: int) -> list[int]:
    """Return at most `most` of `count` positions, evenly spaced, with the first and the last."""
    return sorted({int(place) for place in np.linspace(0, count - 1, min(most, count)).round()})


def maps(runs: Mapping[Key, Trajectory], *, perplexity: float, seed: int, most: int) -> pd.DataFrame:
    """Compute the joint map of the arms' first seeds, at the first snapshot and at the chosen epoch."""
    one = first_seeds(runs)
    most = min(most, max(3, TOGETHER // len(one)))
    parts = []
    for moment in ("first", "chosen"):
        snapshots = {arm: moments(run)[moment] for arm, run in one.items()}
        points = joint_map(one, snapshots, perplexity=perplexity, seed=seed, most=most)
        parts.append(points.assign(moment=moment))
    return pd.concat(parts, ignore_index=True)


def cosine_maps(runs: Mapping[Key, Trajectory], square: int) -> pd.DataFrame:
    """Return cosines of the same `square` tokens in each arm after the block's LayerNorm, without [CLS] and [SEP].

    A row per arm, moment and token: `cosines` with each of the tokens.
    """
    rows: list[dict[str, Any]] = []
    for arm, run in first_seeds(runs).items():
        inner = np.flatnonzero(~run.tokens["end"].to_numpy())[:square]
        for moment, snapshot in moments(run).items():
            unit = units(run.arrays(snapshot).whole("block_normed")[inner])
            rows += [{"arm": arm, "moment": moment, "cosines": cosines} for cosines in unit @ unit.T]
    return pd.DataFrame(rows).sort_values("moment", ascending=False, kind="stable", ignore_index=True)


def kernel_responses(runs: Mapping[Key, Trajectory]) -> pd.DataFrame:
    """Return the frequency response of each kernel (`geometry.kernels`): a row per arm, moment, source and frequency.

    `magnitudes` are by frequency along the hidden index. No rows if no arm has a kernel.
    """
    rows = [row for arm, run in first_seeds(runs).items() for row in _responses(arm, run)]
    return pd.DataFrame(rows, columns=["arm", "moment", "source", "magnitudes"])


def _responses(arm: str, run: Trajectory) -> Iterator[tuple[str, str, str, Any]]:
    called = {snapshot: moment for moment, snapshot in moments(run).items()}  # one snapshot can be both moments
    for snapshot, moment in called.items():
        arrays = run.arrays(snapshot)
        if "kernel" in arrays.names:
            weights = arrays.whole("kernel")
            sources = ("word", "token type", "position") if len(weights) == 3 else ("word", "position")
            for source, response in zip(sources, frequency_response(weights), strict=True):
                yield from ((arm, moment, source, magnitudes) for magnitudes in response)
