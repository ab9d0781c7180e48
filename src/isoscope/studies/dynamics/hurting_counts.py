"""How often parts of a model hurt, in the form of Vázquez et al. 2022, and agreement with their table."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isoscope.platform.results.published import published
from isoscope.platform.statistics.hurting import hurting
from isoscope.platform.statistics.rank_agreement import agreement
from isoscope.studies.dynamics.allocated_runs import BLOCK, SHOWN, AllocatedRun, fold_names, matrix
from isoscope.studies.dynamics.learning import TRAINED

COUNTED = {
    "updates": "minibatch estimator, every update",
    "single": "validation set, intervals of one update",
    "chords": "validation set, intervals of several updates",
}
"""What is counted. These are different things: a chord's allocation is not the sum of its updates' allocations."""
UNITS: dict[str, list[str]] = {"component": ["component"], "block": BLOCK}
"""A component is summed over stacks and layers; a block is a component of a layer of a stack."""

PUBLISHED = published(Path(__file__).parent)


def hurting_counts(runs: Sequence[AllocatedRun]) -> pd.DataFrame:
    """Return how often each component and block hurts: a row per arm, counting (`COUNTED`), unit and group.

    Columns stack, layer, component (empty and -1 for a component's sum), n (seeds) and, as means over seeds: cases
    (intervals or updates), hurts, share, surely, hurts_by_noise, surely_by_noise (see `statistics.hurting`; NaN for the
    minibatch estimator, which has no folds). Over all seeds: last (last update that hurts, 0 if none) and largest
    (largest positive allocation, in nats, 0 if none).
    """
    table = pd.DataFrame([row for run in runs for row in _counts(run)])
    keys = ["arm", "counted", "unit", *BLOCK]
    means = ("cases", "hurts", "share", "surely", "hurts_by_noise", "surely_by_noise")
    named: dict[str, Any] = {"n": ("seed", "size")} | {name: (name, "mean") for name in means}
    return table.groupby(keys, sort=False).agg(**named, last=("last", "max"), largest=("largest", "max")).reset_index()


def _counts(run: AllocatedRun) -> Iterator[dict[str, Any]]:
    own = run.allocation[run.allocation["set"] == SHOWN]
    single = own["update"] - own["start"] == 1
    for unit, columns in UNITS.items():
        if len(run.minibatch):
            for key, values in matrix(run.minibatch, columns).items():
                found = {"cases": len(values), "hurts": int((values > 0).sum())}
                yield _row(run, "updates", unit, key, values) | found | {"share": float((values > 0).mean())}
        for counted, rows in (("single", own[single]), ("chords", own[~single])):
            if len(rows):
                yield from _of_folds(run, counted, unit, rows)


def _of_folds(run: AllocatedRun, counted: str, unit: str, rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    columns, folds = UNITS[unit], fold_names(rows)
    sums = rows.groupby([*columns, "update"], sort=False)[[*folds, "value"]].sum().sort_index(level="update")
    for key, own in sums.groupby(level=columns, sort=False):
        # Values sum in fp64 and decide what hurts; folds are stored in fp32 and give the noise.
        found = hurting(own[folds].to_numpy(dtype=float).T)
        values = own["value"].droplevel(columns)
        counts = found._asdict() | {"hurts": int((values > 0).sum()), "share": float((values > 0).mean())}
        yield _row(run, counted, unit, key, values) | counts


def _row(run: AllocatedRun, counted: str, unit: str, key: Any, values: pd.Series) -> dict[str, Any]:
    named = dict(zip(UNITS[unit], key if isinstance(key, tuple) else (key,), strict=True))
    where = {"stack": "", "layer": -1} | named
    hurts = values[values > 0]
    last, largest = (int(hurts.index.max()), float(hurts.max())) if len(hurts) else (0, 0.0)
    noise = dict.fromkeys(("surely", "hurts_by_noise", "surely_by_noise"), math.nan)
    about = {"arm": run.arm, "seed": run.seed, "counted": counted, "unit": unit}
    return about | where | {"last": last, "largest": largest} | noise


def compared(counts: pd.DataFrame, runs: Sequence[AllocatedRun], words: Mapping[str, str]) -> pd.DataFrame:
    """Compare the ranks of components by count with the published ranks, per arm and counting.

    Columns objective, n (seeds), components, tau (Kendall's tau-b), rho (Spearman), p (exact, of tau), least (the
    smallest possible p), last, warmup, phase (`inside` or `after` the warm-up), published_last, published_phase, word
    (of `learned`) and same_phase. Counts themselves are not compared: they depend on the number of updates and on the
    estimator. An arm that is not trained has no tau and no same_phase. Arms of other objectives have no row.
    """
    rows = []
    for arm, own in counts[counts["unit"] == "component"].groupby("arm", sort=False):
        run = next(run for run in runs if run.arm == arm)
        known = PUBLISHED["values"].get(_published_name(run))
        if known is None:
            continue
        warmup = math.ceil(float(run.output.params["training"]["schedule"]["warmup"]) * run.updates)
        for counted, group in own.groupby("counted", sort=False):
            of = group.set_index("component")
            names = [name for name in known["counts"] if name in of.index]
            last = int(of.loc[names, "last"].max())
            row: dict[str, Any] = {"arm": arm, "objective": run.output.objective, "counted": counted}
            row |= {"n": int(group["n"].max()), "components": len(names), "last": last, "warmup": warmup}
            row |= {"phase": _phase(last, warmup), "published_last": known["last"], "word": words[arm]}
            row |= {"published_phase": _phase(known["last"], PUBLISHED["warmup"])}
            rows.append(row | _agreement(of, names, known, row))
    return pd.DataFrame(rows)


def _published_name(run: AllocatedRun) -> str:
    """Return the published objective of a run; empty for a control on a part of the tokens."""
    objective = run.output.params["objective"]
    return str(objective["kind"]) if objective.get("share", 1.0) == 1.0 else ""


def _phase(last: int, warmup: int) -> str:
    return "never" if last == 0 else "inside" if last <= warmup else "after"


def _agreement(
    own: pd.DataFrame, names: Sequence[str], known: Mapping[str, Any], row: Mapping[str, Any]
) -> dict[str, Any]:
    if row["word"] != TRAINED:
        return {"tau": None, "rho": None, "p": None, "least": None, "same_phase": None}
    found = agreement(
        own.loc[list(names), "hurts"].to_numpy(dtype=float),
        np.array([known["counts"][name] for name in names], dtype=float),
    )
    same = "same" if row["phase"] == row["published_phase"] else "other"
    return {"tau": found.tau, "rho": found.rho, "p": found.p, "least": found.least, "same_phase": same}
