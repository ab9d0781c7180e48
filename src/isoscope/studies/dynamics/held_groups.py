"""Choose groups to hold from the allocation early in training: those that help most, least, and random groups."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from isoscope.base.errors import InputError
from isoscope.studies.dynamics.allocated_runs import BLOCK, OUTSIDE, AllocatedRun

EARLY = 0.1
"""Share of training whose allocation counts."""
QUARTER, SHORT = 0.25, (0.05, 0.1, 0.2)
"""Share of the parameters to hold, and by how much of it a choice may fall short: the first for which sets exist."""
CHOSEN_ON = "train"
"""Set of the allocation; the validation set judges."""
LEFT_OUT = "emb"
"""The word table alone can have more parameters than a quarter."""
Numbers = NDArray[np.float64]


class Early(NamedTuple):
    """Blocks with columns group, component, parameters and value, summed over the updates up to `after`."""

    after: int
    blocks: pd.DataFrame


class HeldSet(NamedTuple):
    """A choice of groups: `most`, `least` or `random_1` …; their parameters, and the sum of their allocation."""

    choice: str
    groups: tuple[str, ...]
    parameters: int
    allocated: float


def by_block(run: AllocatedRun, until: float, name: str = CHOSEN_ON) -> pd.DataFrame:
    """Return a set's allocation up to an update by stack × layer × component, without the word table.

    Columns group (`enc.0.W1`, outside the layers `enc.pos`, as in `training.hold`), component, parameters, value.
    """
    table = run.allocation[(run.allocation["set"] == name) & (run.allocation["component"] != LEFT_OUT)]
    single = table[table["update"] == table["update"].min()].groupby(BLOCK, sort=False)["parameters"].sum()
    sums = table[table["update"] <= until].groupby(BLOCK, sort=False)["value"].sum()
    found = pd.DataFrame({"parameters": single, "value": sums}).reset_index()
    layer = found["layer"].map(lambda one: "" if one == OUTSIDE else f"{one}.")
    return found.assign(group=found["stack"] + "." + layer + found["component"])


def early(run: AllocatedRun) -> Early:
    """Return the allocation of the first tenth of training; it ends with the last interval that ends by then.

    Raises `InputError` if no interval does.
    """
    ends = run.allocation["update"]
    within = ends[ends <= EARLY * run.updates]
    if not len(within):
        raise InputError(f"{run.output.folder}: no interval ends in the first tenth of {run.updates} updates")
    after = int(within.max())
    return Early(after, by_block(run, after))


def held_sets(blocks: pd.DataFrame, *, random: int, seed: int) -> list[HeldSet]:
    """Return the set that helps most, the set that helps least, and `random` random sets, of equal size.

    Every set has 95 to 100 % of a quarter of the parameters, or 90 or 80 to 100 % if no such sets exist. `most` and
    `least` are the two such sets without a common block whose sums of the allocation differ most (negative helps): a
    knapsack problem, solved exactly. A random set is the beginning of a random order of the blocks, the first whose
    size fits. Raises `InputError` if no sets have this size.
    """
    sizes = blocks["parameters"].to_numpy(dtype=float)
    values = blocks["value"].to_numpy(dtype=float)
    high = QUARTER * sizes.sum()
    for short in SHORT:
        low = (1 - short) * high
        if (extremes := _extremes(values, sizes, low, high)) is not None:
            break
    else:
        raise InputError(
            f"no sets of groups have {low:,.0f} to {high:,.0f} parameters, a quarter of all without the word table; "
            "the model's groups are too few or too large"
        )
    chosen = dict(zip(("most", "least"), extremes, strict=True))
    draw = np.random.default_rng(seed)
    chosen |= {f"random_{number + 1}": _random(sizes, low, high, draw) for number in range(random)}
    groups = blocks["group"].to_numpy()
    return [
        HeldSet(name, tuple(groups[taken]), int(sizes[taken].sum()), float(values[taken].sum()))
        for name, taken in chosen.items()
    ]


def _extremes(values: Numbers, sizes: Numbers, low: float, high: float) -> list[NDArray[np.bool_]] | None:
    """Return the sets with the least and the largest sum of `values`, of a size between `low` and `high`, if any."""
    scale = np.abs(values).max() or 1.0  # the solver's tolerances are absolute
    none, single = np.zeros_like(sizes), np.eye(len(sizes))
    found = milp(
        np.concatenate([values, -values]) / scale,
        integrality=1,
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(np.array([[*sizes, *none], [*none, *sizes]]) / high, low / high, 1.0),
            LinearConstraint(np.hstack([single, single]), 0, 1),
        ],
        options={"mip_rel_gap": 0.0},
    )
    return None if found.x is None else np.split(found.x > 0.5, 2)


def _random(sizes: Numbers, low: float, high: float, draw: np.random.Generator) -> NDArray[np.bool_]:
    while True:  # ends, since a set of this size exists
        order = draw.permutation(len(sizes))
        sums = np.cumsum(sizes[order])
        fits = np.flatnonzero((sums >= low) & (sums <= high))
        if len(fits):
            taken = np.zeros(len(sizes), bool)
            taken[order[: fits[0] + 1]] = True
            return taken
