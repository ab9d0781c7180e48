"""Runs of a study of penalties on disk: everything that is logged at each update and evaluation."""

from pathlib import Path

import numpy as np
import pandas as pd

from finished_runs import write_metrics, write_run
from isoscope.studies.curves import curves

LEVELS = {"none": 0.7, "selected": 0.5, "all": 0.55}
UPDATES, EVERY = 40, 10
SHARES = ("a_1", "a_2", "a_3", "a_1_centred", "a_2_centred", "a_3_centred")


def run(root: Path, arm: str, seed: int, *, sd: float = 0.005, updates: int = UPDATES) -> Path:
    """A run whose shares settle, after the first half, at its arm's level: a_1 there, each further one at a third."""
    folder = write_run(root, f"additive-{arm}", seed, study="isotropy", task="mrpc")
    random = np.random.default_rng([seed, len(arm)])
    level = LEVELS[arm] + sd * random.standard_normal()
    lines = [{"name": "validation/accuracy", "value": 0.3, "step": 0, "epoch": 0}]
    for step in range(1, updates + 1):
        at = 0.9 if step <= updates // 2 else level
        for place, name in enumerate(SHARES):
            lines.append({"name": f"step/{name}", "value": at / 3 ** (place % 3), "step": step, "epoch": None})
        if arm != "none":
            lines.append({"name": "step/kept/class_0", "value": 5.0, "step": step, "epoch": None})
        if step % EVERY == 0:
            for name, value in (("accuracy", 0.8 + 0.1 * at), ("a_1", at), ("a_1_centred", at), ("bar_mean", 1.0)):
                lines.append({"name": f"validation/{name}", "value": value, "step": step, "epoch": None})
    write_metrics(folder, lines)
    return folder


def points(root: Path, *, seeds: int = 3, arms: tuple[str, ...] = tuple(LEVELS), sd: float = 0.005) -> pd.DataFrame:
    """Write curves of a study with this many seeds."""
    return curves([run(root, arm, seed, sd=sd) for arm in arms for seed in range(seeds)])
