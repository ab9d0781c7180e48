"""The stored tables behind dynamics.md, and how its numbers are written.

dynamics_runs.py stores them in docs/results/dynamics/. `isoscope analyse` makes the same tables
(`isoscope.studies.dynamics`); here each row has the seed of its run. `folds` has sums over training by fold of the
sentences, `minibatch` the sums of the minibatch estimator.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from isoscope.platform.statistics.paired import paired_t

STORED = Path(__file__).parent / "dynamics"
CONFIDENCE = 0.95
SHOWN = "validation"
NAMES = {"masked": "MLM", "causal": "CLM", "translation": "MT"}
ATTENTION, FEED_FORWARD = ("query", "key", "value", "out"), ("W1", "W2")
COMPONENTS = ("emb", "pos", *ATTENTION, *FEED_FORWARD, "LayerNorm", "other")
Lines = Iterator[str]
PARTS = {
    "own": "own rate",
    "common": "common rate",
    "dense": "own rate, dense",
    "depth": "half of the layers",
    "depth_common": "half of the layers, common rate",
    "part": "15 % of the loss",
    "more": "6.7 × the sentences",
    "fusions": "own rate",
}


def stored(part: str, table: str) -> pd.DataFrame:
    """Return a stored table of a part's runs, ordered by arm and seed."""
    return pd.read_parquet(STORED / part / f"{table}.parquet").sort_values(["arm", "seed"], kind="stable")


def metrics(part: str) -> pd.DataFrame:
    """Return a part's metrics: digest, commit, arm, seed, metric, epoch, step, value."""
    return pd.read_csv(STORED / f"{part}.csv")


def parts() -> list[str]:
    """Return the parts that have stored runs."""
    return [name for name in PARTS if (STORED / f"{name}.csv").exists()]


def called(arm: str) -> str:
    """Return an arm's name on the page, such as `CLM, conv2d`."""
    objective, _, fusion = arm.partition("-")
    name = NAMES.get(objective, objective.replace("causal_part", "CLM"))
    return name if fusion == "additive" else f"{name}, {fusion}"


def order(arm: str) -> tuple[int, int, str]:
    objective, _, fusion = arm.partition("-")
    names = [*NAMES, "causal_part"]
    return ("additive", "conv2d", "fft").index(fusion), names.index(objective), arm


def number(value: float, digits: int = 3, sign: bool = False) -> str:
    """Format a number; a dash for none."""
    return "–" if value is None or np.isnan(value) else f"{value:{'+' if sign else ''},.{digits}f}".replace("-", "−")


def interval(values: Sequence[float], digits: int = 3) -> str:
    """Format the mean over seeds and its t interval; below three seeds the mean alone."""
    found = paired_t(list(values), confidence=CONFIDENCE)
    bounds = found.interval
    shown = f" [{number(bounds.low, digits)}, {number(bounds.high, digits)}]" if bounds else ""
    return number(found.mean, digits) + shown


def correlation(values: Sequence[float]) -> str:
    """Format the mean over seeds of correlations and its t interval, both by Fisher's z."""
    found = paired_t(list(np.arctanh(np.asarray(values, dtype=float))), confidence=CONFIDENCE)
    shown = f" [{', '.join(number(np.tanh(one), 2) for one in found.interval)}]" if found.interval else ""
    return number(np.tanh(found.mean), 2) + shown


def head(*columns: str, left: int = 1) -> Lines:
    """Yield the first two lines of a table, with numbers to the right of the first `left` columns."""
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * left}{'---:|' * (len(columns) - left)}"
