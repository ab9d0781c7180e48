"""Persistence diagrams of [CLS] at the last layer, at a few snapshots, and distances between them."""

import numpy as np
import pandas as pd

from isoscope.geometry import persistence
from isoscope.geometry.moments import ALIKE
from isoscope.inside.trajectory import Snapshot, Trajectory


def moments(run: Trajectory) -> dict[str, Snapshot]:
    """Return the first, the chosen and the last snapshot of training, and the twin with random weights."""
    twin = next((one for one in run.snapshots if one.step is None), None)
    found = {"first": run.trained[0], "chosen": run.best, "last": run.trained[-1]}
    return found | ({"random": twin} if twin is not None else {})


def topology(run: Trajectory, *, points: int, seed: int, vectors: str = "first") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return bars, and distances between diagrams, of the same sentences at each moment, at most `points` sentences.

    First table: moment, snapshot, degree (0, 1), birth, death. Second: moment, degree, bottleneck and 1-Wasserstein
    distance to the chosen snapshot's diagram, n. Each cloud is first scaled to a root mean squared distance of 1 from
    its mean, since size is not shape. A moment whose points are all equal is in neither table.
    """
    rows, bars, diagrams = None, [], {}
    for moment, snapshot in moments(run).items():
        arrays = run.arrays(snapshot)
        whole = arrays.layer(vectors, arrays.shape(vectors)[0] - 1).astype(np.float64)
        if rows is None:
            rows = np.sort(np.random.default_rng(seed).permutation(len(whole))[:points])
        cloud = whole[rows] - whole[rows].mean(0)
        size = np.sqrt((cloud**2).sum(1).mean())
        if size <= ALIKE * np.sqrt((whole[rows] ** 2).sum(1).mean()):
            continue
        diagrams[moment] = persistence.diagrams(cloud / size)
        for degree, diagram in enumerate(diagrams[moment]):
            named = {"moment": moment, "snapshot": snapshot.name, "degree": degree}
            bars.append(pd.DataFrame({**named, "birth": diagram[:, 0], "death": diagram[:, 1]}))
    distances = [
        {
            "moment": moment,
            "degree": degree,
            "bottleneck": persistence.bottleneck(diagram, diagrams["chosen"][degree]),
            "wasserstein": persistence.wasserstein(diagram, diagrams["chosen"][degree]),
            "n": 0 if rows is None else len(rows),
        }
        for moment, found in diagrams.items()
        for degree, diagram in enumerate(found)
        if "chosen" in diagrams
    ]
    return (pd.concat(bars, ignore_index=True) if bars else pd.DataFrame()), pd.DataFrame(distances)
