"""The profile of a run: its allocation by component and half of the depth, in a form that all objectives share."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from isoscope.studies.dynamics.allocated_runs import OUTSIDE, SHOWN, AllocatedRun

RUN = ["arm", "seed", "objective", "data", "size", "word"]
PART = ["component", "half"]
LOWER, UPPER, NO_HALF = "lower", "upper", "outside"


def profiles(runs: Sequence[AllocatedRun], manifest: Mapping[str, Any], words: Mapping[str, str]) -> pd.DataFrame:
    """Return the profile of each run: a row per run, component and half, over the validation set.

    Columns arm, seed, objective (kind; a control on a part of the tokens has its own), data (the task), size (training
    examples), word (of `learned`), component, half and nats (see `halved`).
    """
    rows = int(manifest.get("splits", {}).get("train", {}).get("rows", 0))
    parts = []
    for run in runs:
        params = run.output.params
        size = round(float(params["training"].get("fraction", 1.0)) * rows)
        about = {"arm": run.arm, "seed": run.seed, "objective": objective(params["objective"])}
        about |= {"data": run.output.run.task, "size": size, "word": words[run.arm]}
        parts.append(halved(run.allocation[run.allocation["set"] == SHOWN]).assign(**about))
    return pd.concat(parts, ignore_index=True)[[*RUN, *PART, "nats"]]


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
