"""Did each arm learn at all? And what captions of an allocation say of its runs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from isoscope.platform.figures.numbers import count
from isoscope.platform.runs.output_files import read_metrics
from isoscope.studies.constant_prediction import counted_loss, unigram_of
from isoscope.studies.dynamics.allocated_runs import SHOWN, AllocatedRun

LEAST = 0.1
"""Nats: an arm is trained if every seed ends at least this far below the unigram loss."""
TRAINED, NOT, UNKNOWN = "trained", "not trained", "no unigram loss"


def learned(runs: Sequence[AllocatedRun], manifest: Mapping[str, Any]) -> pd.DataFrame:
    """Return each run's last validation loss next to the counting models of the task's manifest.

    Columns arm, seed, objective, updates, parameters, loss, baseline (`unigram`, or `unigram_masked` for a masked
    model, which does not predict the end), unigram (its loss), trigram, margin (unigram − loss) and word, which is the
    same for all seeds of an arm: `trained` if every margin is at least `LEAST`. A masked model has no trigram loss: a
    trigram model reads only what precedes a token, and predicts the end too. A task or objective without counting
    models has none of these numbers.
    """
    table = pd.DataFrame([_row(run, manifest) for run in runs])
    least = table.groupby("arm")["margin"].transform(lambda margins: margins.min(skipna=False))
    return table.assign(word=np.select([least.isna(), least >= LEAST], [UNKNOWN, TRAINED], NOT))


def _row(run: AllocatedRun, manifest: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(run.output.params["objective"]["kind"])
    points = [point for point in read_metrics(run.output.folder) if point["name"] == "validation/loss"]
    loss = float(max(points, key=lambda point: point["step"])["value"]) if points else math.nan
    name = unigram_of(kind)
    unigram = counted_loss(run.output.params, manifest, name, "validation")
    trigram = math.nan if kind == "masked" else counted_loss(run.output.params, manifest, "trigram", "validation")
    first = run.allocation[run.allocation["update"] == run.allocation["update"].min()]
    parameters = int(first[first["set"] == first["set"].iloc[0]]["parameters"].sum())
    about = {"arm": run.arm, "seed": run.seed, "objective": kind, "updates": run.updates, "parameters": parameters}
    return about | {"loss": loss, "baseline": name, "unigram": unigram, "trigram": trigram, "margin": unigram - loss}


def words(learning: pd.DataFrame) -> dict[str, str]:
    """Return arm → `trained`, `not trained` or `no unigram loss`."""
    return dict(zip(learning["arm"], learning["word"], strict=True))


SIGN = "Negative helps: it lowers the loss. Positive hurts."


def seeds(learning: pd.DataFrame) -> str:
    """Return `n = 3 seeds`, or the number of each arm if they differ; below three seeds, that there is no interval."""
    counts = learning.groupby("arm", sort=False)["seed"].nunique()
    text = ", ".join(f"{n} ({arm})" for arm, n in counts.items())
    if counts.nunique() == 1:
        text = count(counts.iloc[0], "seed")
    return f"n = {text}" + (", so no interval." if counts.max() < 3 else ".")


def shown(closure: pd.DataFrame) -> str:
    """Return the set and the estimator of the figure, and which intervals are open."""
    own = closure[closure["set"] == SHOWN]
    estimator = ", ".join(dict.fromkeys(own["estimator"]))
    return f"Fixed validation sentences, estimator {estimator}. {closure_note(own)}"


def closure_note(own: pd.DataFrame) -> str:
    """Return a sentence on the open intervals of some rows of `closed`: how many, and of which runs."""
    intervals, beyond = own["intervals"].sum(), own["open"].sum()
    text = f"All {intervals} intervals are closed."
    if beyond:
        by_arm = own.groupby(["arm", "set"], sort=False)[["open", "intervals"]].sum().reset_index()
        found = [f"{row.arm} {row.open} of {row.intervals} ({row.set})" for row in by_arm.itertuples() if row.open]
        text = f"{beyond} of {intervals} intervals are open (the sum is beyond its bound): {', '.join(found)}."
    gaps = [
        f"{row.arm} seed {row.seed} ({row.set}, {row.gap:+.3f} nats)".replace("-0.", "−0.")
        for row in own[~own["total_closed"]].itertuples()
    ]
    return text + f" Open over all of training: {', '.join(gaps)}." * bool(gaps)


def about_runs(learning: pd.DataFrame, closure: pd.DataFrame | None) -> str:
    """Return what the end of a caption says: seeds, the estimator with its `closure`, and arms that did not learn."""
    said = seeds(learning) + (f" {shown(closure)}" if closure is not None else "")
    arms = dict.fromkeys(learning.loc[learning["word"] == NOT, "arm"])
    return said + f" Not trained, so without a verdict: {', '.join(arms)}." * bool(arms)
