"""Feature dynamics: the principal plane of a representation at every layer and snapshot, in comparable frames."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from isoscope.geometry.planes import Alignment, planes
from isoscope.inside.cloud import fault
from isoscope.inside.trajectory import Arrays, Snapshot, Trajectory


def feature_dynamics(
    run: Trajectory, alignment: Alignment, *, vectors: str = "first"
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run `aligned` over training: the frames of a layer are its snapshots, the chosen epoch is the reference."""
    return aligned({one: run.arrays(one) for one in run.trained}, alignment, reference=run.best, vectors=vectors)


def aligned(
    states: Mapping[Snapshot, Arrays], alignment: Alignment, *, reference: Snapshot, vectors: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the coordinates of every sentence, and a row for each frame: one of `states` at a layer.

    First table: layer, snapshot, sentence, pc1, pc2. Second: layer, snapshot, step, explained variance along both axes,
    principal angles (degrees) to the reference, and whether the frame is degenerate (`isoscope.inside.cloud.fault`).
    All states have the same sentences, width and depth.
    """
    snapshots = list(states)
    points, frames = [], []
    for layer in range(states[reference].shape(vectors)[0]):
        clouds = np.stack([one.layer(vectors, layer) for one in states.values()]).astype(np.float64)
        found = planes(clouds, alignment, reference=snapshots.index(reference))
        for number, snapshot in enumerate(snapshots):
            coordinates = found.coordinates[number]
            points.append(
                pd.DataFrame(
                    {
                        "layer": layer,
                        "snapshot": snapshot.name,
                        "sentence": np.arange(len(coordinates)),
                        "pc1": coordinates[:, 0].astype(np.float32),
                        "pc2": coordinates[:, 1].astype(np.float32),
                    }
                )
            )
            explained, angles = found.explained[number], found.angles[number]
            frames.append(
                {
                    "layer": layer,
                    "snapshot": snapshot.name,
                    "step": snapshot.step,
                    "epoch": snapshot.epoch,
                    "explained_1": explained[0],
                    "explained_2": explained[1],
                    "angle_1": angles[0],
                    "angle_2": angles[1],
                    "reference": snapshots[found.reference].name,
                    "degenerate": fault(clouds[number], sentences=True) is not None,
                }
            )
    return pd.concat(points, ignore_index=True), pd.DataFrame(frames).astype({"step": "Int64", "epoch": "Int64"})
