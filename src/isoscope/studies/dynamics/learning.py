"""Did each arm learn at all? Its loss at the end of training, next to language models that count."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from isoscope.platform.runs.restored import read_metrics
from isoscope.studies.constant_prediction import counted_loss, unigram_of
from isoscope.studies.dynamics.allocated_runs import AllocatedRun

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
    least = table.groupby("arm")["margin"].apply(lambda margins: margins.min(skipna=False))
    words = {
        arm: UNKNOWN if math.isnan(margin) else TRAINED if margin >= LEAST else NOT for arm, margin in least.items()
    }
    return table.assign(word=table["arm"].map(words))


def _row(run: AllocatedRun, manifest: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(run.output.params["objective"]["kind"])
    loss = _last_loss(run)
    name = unigram_of(kind)
    unigram = counted_loss(run.output.params, manifest, name, "validation")
    trigram = math.nan if kind == "masked" else counted_loss(run.output.params, manifest, "trigram", "validation")
    first = run.allocation[run.allocation["update"] == run.allocation["update"].min()]
    parameters = int(first[first["set"] == first["set"].iloc[0]]["parameters"].sum())
    about = {"arm": run.arm, "seed": run.seed, "objective": kind, "updates": run.updates, "parameters": parameters}
    return about | {
        "loss": loss,
        "baseline": name,
        "unigram": unigram,
        "trigram": trigram,
        "margin": unigram - loss,
    }


def _last_loss(run: AllocatedRun) -> float:
    points = [point for point in read_metrics(run.output.folder) if point["name"] == "validation/loss"]
    return float(max(points, key=lambda point: point["step"])["value"]) if points else math.nan


def words(learning: pd.DataFrame) -> dict[str, str]:
    """Return arm → `trained`, `not trained` or `no unigram loss`."""
    return dict(zip(learning["arm"], learning["word"], strict=True))
