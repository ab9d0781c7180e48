"""Tables of a study's geometry, made up, with one row for each arm, seed, layer and snapshot."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

Table = Callable[..., pd.DataFrame]


def snapshots(steps: Sequence[int], best: int) -> list[dict[str, Any]]:
    """Rows that say which snapshot, the twin with random weights last."""
    trained = [{"snapshot": f"step-{step}", "step": step, "best": step == best} for step in steps]
    return [*trained, {"snapshot": "random", "step": None, "best": False}]


@pytest.fixture
def geometry() -> Table:
    """Make a geometry table; points of arms `additive` or `fft` coincide at layer 0."""

    def made(
        arms: Sequence[str] = ("additive", "conv2d"),
        seeds: int = 3,
        layers: int = 3,
        steps: Sequence[int] = (0, 1, 10, 100),
        figures: Sequence[str] = ("avg_sim",),
        scale: float = 1.0,
    ) -> pd.DataFrame:
        rng = np.random.default_rng(0)
        rows = [
            {
                **snapshot,
                "epoch": None,
                "layer": layer,
                "vectors": "first",
                "figure": figure,
                "value": np.nan if one_point else scale * rng.uniform(),
                "baseline": 0.25,
                "n": 40,
                "d": 8,
                "degenerate": one_point,
                "arm": arm,
                "seed": seed,
            }
            for arm in arms
            for seed in range(seeds)
            for snapshot in snapshots(steps, steps[-1 - seed % len(steps)])
            for layer in range(layers)
            for figure in figures
            for one_point in [layer == 0 and arm in ("additive", "fft")]
        ]
        return pd.DataFrame(rows).astype({"step": "Int64"})

    return made
