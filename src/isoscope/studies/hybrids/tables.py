"""The comparison `hybrids`: how near each start is to the decoder's own encoder, and how well it translates."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from isoscope.base.errors import InputError
from isoscope.platform.config.declared import title
from isoscope.platform.results.paired_comparison import Arms, StudyRuns
from isoscope.platform.runs.output_files import read_metrics
from isoscope.platform.statistics.paired import holm
from isoscope.platform.statistics.rank_agreement import rank_correlation
from isoscope.studies.curves import mean_over_seeds

FILES = ("alignment.json",)
_NEAR = ("r2", "retrieval_forward", "retrieval_back", "cka", "procrustes", "pwcca", "rsa", "neighbours")
NEARNESS = {name: title(name) for name in _NEAR}
"""Measure of nearness to the target → title; for each, more is nearer."""
SCORES = {name: title(name) for name in ("bleu", "chrf")}
NOT_TUNED, TUNED = "as aligned", "trained on"
_FEWEST = 4
"""Starts that a rank correlation needs; of three, no order is rare."""
_DIGITS = 5
"""Decimals that are ranked: measures that a rotation does not change differ by rounding."""


def tables(
    studies: Mapping[str, StudyRuns], *, aligned: str, tuned: str, confidence: float, **_: Any
) -> dict[str, pd.DataFrame]:
    """Return the tables of starts (runs of the study `aligned`) and of what was trained from them (`tuned`).

    - `nearness`: start, when (before: the encoder without its map; or after the alignment), measure, seed, value, n
      (sentences).
    - `translated`: start, training (`NOT_TUNED` or `TUNED`), score, seed, value.
    - `scores`: the same over seeds: mean, low, high (t interval over seeds, at least 3), n (seeds).
    - `predictors`: when, measure, training, rho, p, n (starts), p_holm: Spearman's correlation of nearness with BLEU
      over starts, means over seeds, and its p from random permutations; Holm's correction over all of a `when`.

    Raises `InputError` if a run of `tuned` does not start from one of these runs of `aligned`, or if two of its arms
    train one start on.
    """
    translated = pd.DataFrame(_translated(studies[tuned].arms, studies[aligned].arms, aligned))
    if (twice := translated.duplicated(["start", "training", "score", "seed"])).any():
        row = translated[twice].iloc[0]
        raise InputError(f"study {tuned!r}: several arms have the start {row['start']!r} {row['training']}; keep one")
    nearness = pd.DataFrame(_nearness(studies[aligned].arms))
    keys = ["start", "training", "score"]
    scores = [
        {**dict(zip(keys, key, strict=True)), **mean_over_seeds(rows["value"], confidence), "n": len(rows)}
        for key, rows in translated.groupby(keys, sort=False)
    ]
    return {
        "nearness": nearness,
        "translated": translated,
        "scores": pd.DataFrame(scores).astype({"low": float, "high": float}),
        "predictors": predictors(nearness, translated),
    }


def _nearness(arms: Arms) -> Iterator[dict[str, Any]]:
    for arm, runs in arms.items():
        for seed, run in runs.items():
            for when, measures in json.loads((run.output.folder / FILES[0]).read_text("utf-8")).items():
                for measure in (one for one in NEARNESS if one in measures):  # spaces of unequal width have no R²
                    key = {"start": called(arm), "when": when, "measure": measure, "seed": seed}
                    yield {**key, "value": float(measures[measure]), "n": int(measures["n"])}


def _translated(arms: Arms, aligned: Arms, study: str) -> Iterator[dict[str, Any]]:
    for runs in arms.values():
        for seed, run in runs.items():
            start = run.output.params["model"]["encoder"]
            before = aligned.get(str(start.get("arm")), {}).get(seed)
            if start.get("study") != study or before is None:
                raise InputError(f"{run.output.folder}: does not start from a run of study {study!r} with its seed")
            if before.output.run.digest not in run.output.run.inputs.values():
                own = run.output.run
                raise InputError(f"{run.output.folder}: starts from an earlier run; run: isoscope train {own.study}")
            updates = max(int(point["step"]) for point in read_metrics(run.output.folder))
            key = {"start": called(start["arm"]), "training": TUNED if updates else NOT_TUNED, "seed": seed}
            yield from ({**key, "score": score, "value": run.scores[score]} for score in SCORES)


def called(arm: str) -> str:
    """Return the name of a start: its arm without the objective, which all starts have."""
    return arm.removeprefix("alignment-")


def predictors(nearness: pd.DataFrame, translated: pd.DataFrame) -> pd.DataFrame:
    """Return the table `predictors` of `tables`, from its tables `nearness` and `translated`."""
    columns = ["when", "measure", "training", "rho", "p", "n"]
    found = pd.DataFrame(_predictors(nearness, translated), columns=columns)
    return found.assign(p_holm=found.groupby("when", sort=False)["p"].transform(lambda p: holm([*p])))


def of_translated(nearness: pd.DataFrame, translated: pd.DataFrame) -> pd.DataFrame:
    """Return the nearness of the runs that were translated with, by training: both means are over the same seeds."""
    runs = ["start", "seed"]
    return nearness.merge(translated[[*runs, "training"]].drop_duplicates(), on=runs)


def _predictors(nearness: pd.DataFrame, translated: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    known = of_translated(nearness, translated)
    bleu = translated[translated["score"] == "bleu"].groupby(["training", "start"], sort=False)["value"].mean()
    for (when, measure, training), rows in known.groupby(["when", "measure", "training"], sort=False):
        near = rows.groupby("start", sort=False)["value"].mean()
        both = pd.concat([near, bleu[training]], axis=1, join="inner").to_numpy(float)
        if len(both) >= _FEWEST:
            found = rank_correlation(*both.round(_DIGITS).T)
            yield when, measure, training, found.rho, found.p, len(both)
