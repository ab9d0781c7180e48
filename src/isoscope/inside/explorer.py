"""Data of the report's explorer: the position of every sentence in the plane of each layer and snapshot."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from isoscope.inside.trajectory import Trajectory

MOST = 200
"""Number of sentences in the explorer: enough to see a shape, few enough for a page."""
LETTERS = 120
"""Maximum number of letters of a sentence."""


def explorer(
    runs: Mapping[tuple[str, int], Trajectory],
    planes: Mapping[tuple[str, int], pd.DataFrame],
    frames: Mapping[tuple[str, int], pd.DataFrame],
) -> dict[str, Any]:
    """Return plain values: sentences, labels, and by arm and seed the snapshots, layers and coordinates.

    Coordinates are scaled by each frame's largest value (an untrained frame is a hundred times smaller than a trained
    frame) to integers from −1000 to 1000. `points[layer][snapshot]` lists x and y of each sentence.
    """
    first = next(iter(runs.values()))
    kept = np.linspace(0, len(first.probe) - 1, min(MOST, len(first.probe))).round().astype(int)
    texts = [column for column in first.probe if column.startswith("text")]
    sentences = [" / ".join(str(first.probe[name].iloc[row]) for name in texts)[:LETTERS] for row in kept]
    found: dict[str, Any] = {
        "sentences": sentences,
        "labels": first.probe["label"].iloc[kept].tolist(),
        "runs": [],
    }
    for (arm, seed), table in planes.items():
        shown = frames[arm, seed].set_index(["layer", "snapshot"])
        snapshots = list(dict.fromkeys(table["snapshot"]))
        layers = sorted(int(layer) for layer in table["layer"].unique())
        points, explained = [], []
        for layer in layers:
            rows = table[table["layer"] == layer]
            xy = np.stack([rows.loc[rows["snapshot"] == one, ["pc1", "pc2"]].to_numpy()[kept] for one in snapshots])
            single = shown.loc[[(layer, one) for one in snapshots], "degenerate"].to_numpy(bool)
            largest = np.where(single, np.inf, np.abs(xy).max((1, 2)))[:, None, None]
            scaled = 1000 * xy / largest
            points.append([frame.ravel().tolist() for frame in scaled.round().astype(int)])
            explained.append(
                [
                    None
                    if shown.loc[(layer, one), "degenerate"]
                    else [round(float(shown.loc[(layer, one), f"explained_{axis}"]), 3) for axis in (1, 2)]
                    for one in snapshots
                ]
            )
        steps = [int(shown.loc[(layers[0], one), "step"]) for one in snapshots]
        found["runs"].append(
            {
                "arm": arm,
                "seed": seed,
                "layers": layers,
                "steps": steps,
                "best": snapshots.index(runs[arm, seed].best.name),
                "points": points,
                "explained": explained,
            }
        )
    return found
