"""Which part of a model learns which tokens, and when: the allocation by slice, as tables."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd

from isoscope.platform.results.paired_comparison import Arms
from isoscope.studies.dynamics.allocated_runs import SHOWN, mean_over_seeds, read_table
from isoscope.studies.dynamics.totals import EVERY

SLICED = ("slices.parquet", "slices_closure.parquet")
"""What `training.slices` writes into a run's output (`isoscope.training.observers.slices` has the columns)."""
SLICE = ["frequency", "context"]
LEAST = 0.05
"""Nats per token: a slice whose loss changes less has no shares."""


class _Slice(NamedTuple):
    """A slice of a run's validation set: facts, and shares of the change of its loss, an update per row."""

    facts: dict[str, Any]
    shares: pd.DataFrame
    """A column per component, cumulative; `EVERY`: the change of the loss so far."""


def sliced(arms: Arms, confidence: float) -> dict[str, pd.DataFrame]:
    """Return the tables of the runs that have slices, by name; none if no run has them. Validation set only.

    `slices`: a row per arm, slice and component (summed over layers and stacks; `all`: the whole model).

    - tokens: the slice's share of predicted tokens; before, after: its loss in nats per token of the slice; half: the
      first interval's end by which half of the change of its loss was reached. Means over seeds; n: seeds.
    - share: of the change of the slice's loss, with the t interval over seeds (low, high); empty where the loss changes
      by less than `LEAST` in a seed. Shares of the components sum to 1 up to the gap. Positive helps if the loss fell.
    - intervals, open: intervals of all seeds, and how many of them are beyond their bound.

    `slices_course`: a row per arm, slice, component and update: share, cumulative, mean over seeds.
    """
    found = [one for arm, runs in arms.items() for seed in runs for one in _slices(arms, arm, seed)]
    if not found:
        return {}
    facts = pd.DataFrame([one.facts for one in found])
    long = pd.concat([_long(one) for one in found], ignore_index=True)
    keys = ["arm", *SLICE, "component", "update"]
    means = long.groupby(keys, sort=False)["share"].agg(lambda shares: shares.mean(skipna=False))
    course = means.dropna().reset_index()
    return {"slices": _totals(facts, long, confidence), "slices_course": course}


def _slices(arms: Arms, arm: str, seed: int) -> Iterator[_Slice]:
    folder = arms[arm][seed].output.folder
    if not all((folder / name).is_file() for name in SLICED):
        return
    values, closure = (read_table(folder / name).query(f"set == '{SHOWN}'") for name in SLICED)
    by_slice = dict(list(values.groupby(SLICE, sort=False)))
    for key, own in closure.groupby(SLICE, sort=False):
        own = own.sort_values("update").set_index("update")
        tokens, before, after = own["tokens"].iloc[0], own["before"].iloc[0], own["after"].iloc[-1]
        change = after - before if abs(after - before) >= LEAST * tokens else float("nan")
        sums = by_slice[key].groupby(["update", "component"])["value"].sum().unstack("component").cumsum()
        shares = sums.assign(**{EVERY: own["after"] - before}) / change
        reached = shares.index[shares[EVERY] >= 0.5]
        facts: dict[str, Any] = {"arm": arm, "seed": seed} | dict(zip(SLICE, key, strict=True))
        facts |= {"tokens": tokens, "before": before / tokens, "after": after / tokens}
        facts |= {"half": float(reached[0]) if len(reached) else float("nan")}
        yield _Slice(facts | {"intervals": len(own), "open": int((~own["closed"]).sum())}, shares)


def _long(one: _Slice) -> pd.DataFrame:
    about = {name: one.facts[name] for name in ("arm", "seed", *SLICE)}
    return one.shares.reset_index().melt("update", var_name="component", value_name="share").assign(**about)


def _totals(facts: pd.DataFrame, long: pd.DataFrame, confidence: float) -> pd.DataFrame:
    keys = ["arm", *SLICE]
    last = long[long["update"] == long.groupby(["arm", "seed"])["update"].transform("max")]
    rows = []
    for key, own in facts.groupby(keys, sort=False):
        means = {name: own[name].mean(skipna=False) for name in ("tokens", "before", "after", "half")}
        means |= {name: int(own[name].sum()) for name in ("intervals", "open")}
        of_slice = last[(last[keys] == list(key)).all(axis=1)]
        for component, shares in of_slice.groupby("component", sort=False)["share"]:
            found = mean_over_seeds(shares, confidence)
            share = {"share": found["mean"], "low": found["low"], "high": found["high"]}
            rows.append(dict(zip(keys, key, strict=True)) | {"component": component, "n": len(own)} | means | share)
    return pd.DataFrame(rows)
