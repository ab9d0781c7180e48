"""How often parts of a model hurt, in the form of Vázquez et al. 2022, and verdicts on their ranks."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.platform.figures.numbers import count
from isoscope.platform.outputs import epochs_by_update
from isoscope.platform.results.published import FAIL, PASS, UNDERPOWERED, published
from isoscope.platform.statistics.paired import FEWEST_SEEDS, NO_VERDICT, Verdict, holm
from isoscope.platform.statistics.rank_agreement import agreement
from isoscope.studies.dynamics.allocated_runs import BLOCK, OUTSIDE, AllocatedRun, fold_names, matrix
from isoscope.studies.dynamics.hurting import hurting
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
    (intervals or updates), hurts, share, surely, hurts_by_noise, surely_by_noise (see `hurting`; NaN for the
    minibatch estimator, which has no folds). Over all seeds: last (last update that hurts, 0 if none) and largest
    (largest positive allocation, in nats, 0 if none).
    """
    keys = ["arm", "counted", "unit", *BLOCK]
    means = ["cases", "hurts", "share", "surely", "hurts_by_noise", "surely_by_noise"]
    columns = ["seed", *keys, *means, "last", "largest"]
    table = pd.DataFrame([row for run in runs for row in _counts(run)], columns=columns)
    named: dict[str, Any] = {"n": ("seed", "size")} | {name: (name, "mean") for name in means}
    return table.groupby(keys, sort=False).agg(**named, last=("last", "max"), largest=("largest", "max")).reset_index()


def _counts(run: AllocatedRun) -> Iterator[dict[str, Any]]:
    own = run.shown
    single = own["update"] - own["start"] == 1
    for unit, columns in UNITS.items():
        if len(run.minibatch):
            for key, values in matrix(run.minibatch, columns).items():
                yield _row(run, "updates", unit, key, values) | {"cases": len(values)}
        for counted, rows in (("single", own[single]), ("chords", own[~single])):
            folds = fold_names(rows)
            sums = rows.groupby([*columns, "update"], sort=False)[[*folds, "value"]].sum().sort_index(level="update")
            for key, of in sums.groupby(level=columns, sort=False):
                # Values sum in fp64 and decide what hurts; folds are stored in fp32 and give the noise.
                noise = hurting(of[folds].to_numpy(dtype=float).T)._asdict()
                yield noise | _row(run, counted, unit, key, of["value"].droplevel(columns))


def _row(run: AllocatedRun, counted: str, unit: str, key: Any, values: pd.Series) -> dict[str, Any]:
    """Return what a group's values say without their noise."""
    named = dict(zip(UNITS[unit], key if isinstance(key, tuple) else (key,), strict=True))
    hurts = values[values > 0]
    last, largest = (int(hurts.index.max()), float(hurts.max())) if len(hurts) else (0, 0.0)
    about = {"arm": run.arm, "seed": run.seed, "counted": counted, "unit": unit, "stack": "", "layer": OUTSIDE} | named
    return about | {"hurts": len(hurts), "share": len(hurts) / len(values), "last": last, "largest": largest}


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
        objective = run.output.params["objective"]
        known = PUBLISHED["values"].get(objective["kind"])
        if known is None or objective.get("share", 1.0) != 1.0:  # a control on a part of the tokens
            continue
        warmup = warmup_updates(run)
        for counted, group in own.groupby("counted", sort=False):
            of = group.set_index("component")
            of = of.loc[[name for name in known["counts"] if name in of.index]]
            last = int(of["last"].max())
            row: dict[str, Any] = {"arm": arm, "objective": run.output.objective, "counted": counted}
            row |= {"n": int(group["n"].max()), "components": len(of), "last": last, "warmup": warmup}
            row |= {"phase": _phase(last, warmup), "published_last": known["last"], "word": words[arm]}
            row |= {"published_phase": _phase(known["last"], PUBLISHED["warmup"])}
            rows.append(row | _agreement(of, known["counts"], row))
    return pd.DataFrame(rows)


def warmup_updates(run: AllocatedRun) -> int:
    """Return the updates of a run's warm-up, as `training.optim.schedule_factor` counts them.

    Of its planned updates, or of those of `schedule.epochs`. The first epoch tells how many an epoch has; a budget of
    tokens or predictions plans as many as were made.
    """
    training = run.output.params["training"]
    schedule, budget = training["schedule"], training["budget"]
    epochs = schedule["epochs"] or (training["epochs"] if budget is None else None)
    if epochs is not None:
        ends = epochs_by_update(run.output.folder)
        total = epochs * next(update for update, epoch in ends.items() if epoch == 1)
    else:
        total = budget["number"] if budget["kind"] == "updates" else run.updates
    return math.floor(schedule["warmup"] * total)


def _phase(last: int, warmup: int) -> str:
    return "never" if last == 0 else "inside" if last <= warmup else "after"


def _agreement(own: pd.DataFrame, known: Mapping[str, int], row: Mapping[str, Any]) -> dict[str, Any]:
    if row["word"] != TRAINED:
        return {"tau": None, "rho": None, "p": None, "least": None, "same_phase": None}
    found = agreement(own["hurts"].to_numpy(dtype=float), own.index.map(known).to_numpy(dtype=float))
    same = "same" if row["phase"] == row["published_phase"] else "other"
    return {"tau": found.tau, "rho": found.rho, "p": found.p, "least": found.least, "same_phase": same}


def with_verdicts(compared: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Return `hurting_counts.compared` with p_holm, verdict, reason, and whether the row decides the exit code.

    p_holm: by Holm over the arms of a counting. The minibatch estimator is the likely published estimator, so its rows
    decide.
    """
    if not len(compared):
        return compared
    by_counting = compared["p"].astype(float).groupby(compared["counted"], sort=False)
    found = compared.assign(p_holm=by_counting.transform(lambda p: holm(p.to_numpy())))
    verdicts = [judged(row, confidence) for row in found.to_dict("records")]
    words, reasons = zip(*verdicts, strict=True)
    return found.assign(verdict=words, reason=reasons, decides=found["counted"] == PUBLISHED["decides"])


def judged(row: Mapping[str, Any], confidence: float) -> Verdict:
    """Return the verdict on a row of `hurting_counts.compared` with p_holm.

    - *no verdict*: the arm is not trained.
    - *under-powered*: fewer than 3 seeds; or no order of these counts, with their ties, reaches p ≤ 1 − `confidence`;
      or p after Holm is larger than that.
    - *pass*: tau > 0 with p after Holm ≤ 1 − `confidence` (exact, two-sided).
    - *fail*: tau < 0 with such a p: the order is rather the reverse.
    """
    level = 1 - confidence + 1e-9
    if row["word"] != TRAINED:
        return Verdict(NO_VERDICT, str(row["word"]))
    tau, p, least = (float(row[name]) for name in ("tau", "p_holm", "least"))
    if row["n"] < FEWEST_SEEDS:
        return Verdict(UNDERPOWERED, f"{count(row['n'], 'seed')}: no verdict below {FEWEST_SEEDS}")
    if math.isnan(tau + p + least):
        return Verdict(UNDERPOWERED, "all components hurt equally often")
    if least > level:
        return Verdict(UNDERPOWERED, f"no order of {row['components']} components with these ties has p ≤ {level:.2g}")
    if p > level:
        return Verdict(UNDERPOWERED, f"no clear order: p > {level:.2g}")
    if tau > 0:
        return Verdict(PASS, f"the ranks agree (τ > 0, p ≤ {level:.2g})")
    return Verdict(FAIL, f"the ranks are rather reversed (τ < 0, p ≤ {level:.2g})")
