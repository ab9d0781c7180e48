"""The allocation summed over training: by block, attention head and half of the depth; closure of each run."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isoscope.studies.curves import mean_over_seeds
from isoscope.studies.dynamics.allocated_runs import BLOCK, OUTSIDE, AllocatedRun

LEVELS: dict[str, list[str]] = {"block": BLOCK, "component": ["stack", "component"], "stack": ["stack"], "all": []}
"""Level → the columns that are not summed over."""
EVERY = "all"
"""Stack or component of a row that sums over all of them."""


def allocated(runs: Sequence[AllocatedRun], confidence: float) -> pd.DataFrame:
    """Return the allocation summed over training, per arm and set.

    Columns arm, set, level, stack, layer, component, parameters, n (seeds), and with t intervals over seeds (`low_…`,
    `high_…`; none below three seeds): `nats`; `per_parameter`, in nats per million parameters; `share` of the change
    of the set's loss, so that the shares of a level sum to 1 up to the run's gap. Where the loss did not change, the
    shares are NaN.
    """
    parts = []
    for run in runs:
        for name, own in run.allocation.groupby("set", sort=False):
            closure = run.closure
            whole = float(closure.loc[closure["total"] & (closure["set"] == name), "change"].iloc[0])
            for level, columns in LEVELS.items():
                sums = _sums(own, columns).assign(level=level, arm=run.arm, set=name, seed=run.seed)
                sums["share"] = sums["nats"] / whole if whole else float("nan")
                sums["per_parameter"] = 1e6 * sums["nats"] / sums["parameters"]
                parts.append(sums)
    rows = []
    keys = ["arm", "set", "level", *BLOCK]
    for key, group in pd.concat(parts, ignore_index=True).groupby(keys, sort=False):
        row = dict(zip(keys, key, strict=True)) | {"parameters": int(group["parameters"].iloc[0]), "n": len(group)}
        for quantity in ("nats", "per_parameter", "share"):
            found = mean_over_seeds(group[quantity], confidence)
            row |= {quantity: found["mean"], f"low_{quantity}": found["low"], f"high_{quantity}": found["high"]}
        rows.append(row)
    return pd.DataFrame(rows)


def _sums(own: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return nats and single parameters per group of `columns`; the other columns of a block say `EVERY`, or -1."""
    missing = {"stack": EVERY, "component": EVERY, "layer": OUTSIDE}
    own = own.assign(**{name: value for name, value in missing.items() if name not in columns})
    first = own[own["update"] == own["update"].min()]
    sums = own.groupby(BLOCK, sort=False)["value"].sum().rename("nats").reset_index()
    return sums.merge(first.groupby(BLOCK, sort=False)["parameters"].sum().reset_index(), on=BLOCK)


def closed(runs: Iterable[AllocatedRun]) -> pd.DataFrame:
    """Return how well each run's allocation sums to the change of its loss, per arm, seed and set.

    Columns estimator, intervals, `open` (intervals beyond their bound), share_closed, worst (largest |gap| over its
    bound, of single intervals), helping (share of single parameters that help, of those that moved, mean over
    intervals), before, after, change, allocated, gap, bound, and total_closed, of all intervals together.
    """
    rows = []
    for run in runs:
        for name, own in run.closure.groupby("set", sort=False):
            total, single = own[own["total"]].iloc[0], own[~own["total"]]
            rows.append(
                {
                    "arm": run.arm,
                    "seed": run.seed,
                    "set": name,
                    "estimator": total["estimator"],
                    "intervals": len(single),
                    "open": int((~single["closed"]).sum()),
                    "share_closed": float(single["closed"].mean()),
                    "worst": float((single["gap"].abs() / single["bound"]).max()),
                    "helping": float(single["helping"].mean()),
                    **{key: float(total[key]) for key in ("before", "after", "change", "allocated", "gap", "bound")},
                    "total_closed": bool(total["closed"]),
                }
            )
    return pd.DataFrame(rows)


NORMALISATIONS = ("raw", "sum-abs", "max-abs", "min-max")


def normalised(values: NDArray[np.float64], kind: str) -> NDArray[np.float64]:
    """Return all head values of a model, normalised together.

    `raw`: as they are; `sum-abs`: over the sum of magnitudes; `max-abs`: over the largest magnitude; `min-max`: from 0
    (smallest, helps most) to 1. NaN if the divisor is 0.
    """
    low = values.min() if kind == "min-max" else 0.0
    divisor = {
        "raw": 1.0,
        "sum-abs": np.abs(values).sum(),
        "max-abs": np.abs(values).max(),
        "min-max": values.max() - values.min(),
    }[kind]
    return (values - low) / divisor if divisor else np.full(values.shape, np.nan)


def head_shares(runs: Sequence[AllocatedRun]) -> pd.DataFrame:
    """Return the validation set's allocation to heads: arm, stack, layer, rank, normalisation, value, sd, n.

    A head's value sums its rows of query, key and value, and its columns of `out`. Normalisation is within a run, over
    all its heads. Head 3 of a seed is not head 3 of another, so the heads of a layer are sorted by allocation (rank 1
    helps most), and each rank is averaged over seeds. Without heads in the tables there are no rows.
    """
    parts = []
    for run in runs:
        own = run.shown[run.shown["head"] != OUTSIDE]
        if own.empty:
            continue
        sums = own.groupby(["stack", "layer", "head"], sort=False)["value"].sum().reset_index()
        ranks = sums.groupby(["stack", "layer"])["value"].rank(method="first").astype(int)
        for kind in NORMALISATIONS:
            values = normalised(sums["value"].to_numpy(), kind)
            parts.append(sums.assign(rank=ranks, value=values, arm=run.arm, normalisation=kind))
    keys = ["arm", "stack", "layer", "rank", "normalisation"]
    if not parts:
        return pd.DataFrame(columns=[*keys, "value", "sd", "n"])
    grouped = pd.concat(parts, ignore_index=True).groupby(keys, sort=False)["value"]
    return grouped.agg(value="mean", sd="std", n="size").reset_index()


RUN = ["arm", "seed", "objective", "data", "size", "word"]
PART = ["component", "half"]
LOWER, UPPER, NO_HALF = "lower", "upper", "outside"


def profiles(runs: Sequence[AllocatedRun], manifest: Mapping[str, Any], words: Mapping[str, str]) -> pd.DataFrame:
    """Return the profile of each run: a row per run, component and half, over the validation set.

    Columns arm, seed, objective (kind; a control on a part of the tokens has its own), data (the task), size (training
    examples), word (of `learned`), component, half, nats (see `halved`) and minibatch: nats by the minibatch estimator;
    without it, missing.
    """
    rows = int(manifest.get("splits", {}).get("train", {}).get("rows", 0))
    parts = []
    for run in runs:
        params = run.output.params
        size = round(float(params["training"].get("fraction", 1.0)) * rows)
        about = {"arm": run.arm, "seed": run.seed, "objective": objective(params["objective"])}
        about |= {"data": run.output.run.task, "size": size, "word": words[run.arm]}
        own = halved(run.shown)
        if len(run.minibatch):
            minibatch = halved(run.minibatch).rename(columns={"nats": "minibatch"})
            own = own.merge(minibatch, on=PART, how="outer", validate="1:1")
        parts.append(own.assign(**about))
    return pd.concat(parts, ignore_index=True).reindex(columns=[*RUN, *PART, "nats", "minibatch"])


def objective(section: Mapping[str, Any]) -> str:
    """Return the objective's kind; `causal_part` for causal modelling that predicts a part of the tokens."""
    return str(section["kind"]) + "_part" * (float(section.get("share", 1.0)) < 1)


def halved(allocation: pd.DataFrame) -> pd.DataFrame:
    """Return sums of `value` by component and half of the depth: columns component, half, nats.

    Each stack has its own halves: the middle layer of an odd number counts half to each. So four layers in one stack,
    and two in an encoder and two in a decoder, have the same parts. Stacks are summed, cross-attention with the
    attention of its name. What is in no layer has the half `outside`.
    """
    sums = allocation.groupby(["stack", "layer", "component"])["value"].sum().reset_index()
    layers = sums.groupby("stack")["layer"].transform("max") + 1
    lower = np.clip(layers / 2 - sums["layer"], 0, 1)
    inside = sums["layer"] != OUTSIDE
    shares = {LOWER: lower.where(inside, 0.0), UPPER: (1 - lower).where(inside, 0.0), NO_HALF: (~inside).astype(float)}
    parts = [sums.assign(half=half, nats=share * sums["value"])[share > 0] for half, share in shares.items()]
    return pd.concat(parts).groupby(PART)["nats"].sum().reset_index()
