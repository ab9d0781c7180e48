"""Did each arm learn at all? Its loss at the end of training, next to language models that count."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from isoscope.runs.restored import read_metrics
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
    objective = run.output.params["objective"]
    kind = str(objective["kind"])
    loss = _last_loss(run)
    name = "unigram_masked" if kind == "masked" else "unigram"
    side = str(objective.get("side", "target"))  # what an encoder-decoder predicts
    tokenizer = run.output.params.get("model", {}).get("encoder", {}).get("tokenizer", {})
    known = manifest if tokenizer.get("kind", "task") == "task" else {}  # losses depend on the tokenizer
    unigram = _baseline(known, name, side)
    trigram = math.nan if kind == "masked" else _baseline(known, "trigram", side)
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


def _baseline(manifest: Mapping[str, Any], name: str, side: str) -> float:
    """Return a counting model's validation loss on the source or the target side; NaN if the task has none."""
    columns = manifest.get("columns") or [""]
    column = columns[0] if side == "source" else columns[-1]
    found = manifest.get("baselines", {}).get(name, {}).get("validation", {}).get(column, {})
    return float(found.get("loss", math.nan))


def words(learning: pd.DataFrame) -> dict[str, str]:
    """Return arm → `trained`, `not trained` or `no unigram loss`."""
    return dict(zip(learning["arm"], learning["word"], strict=True))
