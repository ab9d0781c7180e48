"""When do the parts of a model learn? The update by which each has half of its allocation, for dynamics.md."""

import numpy as np
import pandas as pd
from dynamics_stored import COMPONENTS, CONFIDENCE, Lines, called, head, number, order, stored

from isoscope.platform.statistics.paired import paired_t

STACKS = {"enc": "*layers of the encoder*", "cross": "*cross-attention*", "dec": "*layers of the decoder*"}
BEYOND = 0.2
"""Share of its sum over training by which a part's cumulative allocation may leave the span from 0 to this sum."""


def halves(part: str = "own") -> dict[str, pd.DataFrame]:
    """Return arm → the update by which a component or stack has half of its allocation: a row per seed.

    NaN where the cumulative allocation exceeds its end by more than `BEYOND`: such a part gains and then loses, so
    "half" has no meaning.
    """
    table = stored(part, "course")
    found: dict[str, dict[str, dict[int, float]]] = {}
    for (arm, group, seed), own in table.groupby(["arm", "group", "seed"], sort=False):
        course = own.sort_values("update")
        reached = np.concatenate([[0.0], course["cumulative"] / course["cumulative"].iloc[-1]])
        at = int(np.argmax(reached >= 0.5))
        ends = np.concatenate([[0.0], course["update"]])
        inside = (0.5 - reached[at - 1]) / (reached[at] - reached[at - 1])
        half = ends[at - 1] + inside * (ends[at] - ends[at - 1])
        once = reached.max() <= 1 + BEYOND and reached.min() >= -BEYOND
        found.setdefault(arm, {}).setdefault(group, {})[int(seed)] = half if once else np.nan
    return {arm: pd.DataFrame(own) for arm, own in found.items()}


def timing() -> Lines:
    """Yield the update by which each component and each stack has half of its allocation, interpolated in intervals.

    The geometric mean over seeds with the t interval of the logarithms.
    """
    every = halves()
    arms = sorted(every, key=order)
    yield from head("half of the allocation by update", *map(called, arms))
    for group in (*COMPONENTS, "enc", "cross", "dec"):
        cells = [_updates(every[arm][group]) if group in every[arm] else "–" for arm in arms]
        yield f"| {STACKS.get(group, group)} | {' | '.join(cells)} |"


def _updates(values: pd.Series) -> str:
    """Format the geometric mean of updates over seeds and its interval; a dash if a seed has none."""
    found = paired_t(list(np.log(values)), confidence=CONFIDENCE)
    bounds = found.interval
    shown = f" [{number(np.exp(bounds.low), 0)}, {number(np.exp(bounds.high), 0)}]" if bounds else ""
    return number(float(np.exp(found.mean)), 0) + shown
