"""Small searches: a conditional space, with pruned, failed and infeasible trials among the complete ones."""

import json
import math
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import FloatDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from isoscope.base.atomic_files import seal
from isoscope.base.parquet import write_parquet
from isoscope.platform.search.outcomes import PROVENANCE, front, importances, knee, saved_by_pruning
from isoscope.platform.search.search_figures import pictures
from isoscope.platform.search.trials_table import reported, trials_table

NAMES = ("validation/accuracy", "validation/a_1", "end/seconds")
DIRECTIONS = ("maximize", "minimize", "minimize")
STEPS = 4
DIGEST = "5ea2c4" + 58 * "0"
FUSIONS = ("additive", "conv2d", "fft")


def new(objectives: int = 1, *, axis: str | None = "fusion", seed: int = 0) -> Study:
    """A study without trials."""
    study = _named(DIRECTIONS[:objectives], seed)
    study.set_user_attr("axis", axis)
    return study


def _named(directions: Sequence[str], seed: int = 0) -> Study:
    """A study whose objectives have names, as those of isoscope."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(directions=directions, sampler=optuna.samplers.RandomSampler(seed=seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        study.set_metric_names(list(NAMES[: len(directions)]))
    return study


def searched(trials: int = 40, objectives: int = 1, *, axis: str | None = "fusion", seed: int = 0) -> Study:
    """Of every five trials the fourth is pruned after two steps (one objective only), of every eleven the eighth fails.

    Where accuracy is below 0.7 a trial is infeasible. A pruned one reported NaN first.
    """
    study = new(objectives, axis=axis, seed=seed)

    def run(trial: Trial) -> Sequence[float]:
        values = _values(trial)
        digests = [f"{trial.number:04x}" + 60 * "0"]
        facts = {"seconds": 1.5 * (trial.number + 1), "digests": digests, "steps": STEPS, "epochs": 2}
        trial.set_user_attr(PROVENANCE, facts)
        if trial.number % 11 == 7:
            trial.set_user_attr("error", "the loss was not finite")
            raise RuntimeError("the loss was not finite")
        if objectives == 1:
            for step in range(1, STEPS + 1):
                early = trial.number % 5 == 3
                trial.report(math.nan if early and step == 1 else values[0] * step / STEPS, step)
                if early and step == 2:
                    raise optuna.TrialPruned
        trial.set_constraint("validation/accuracy", 0.7 - values[0])
        return values[:objectives]

    study.optimize(run, n_trials=trials, catch=(RuntimeError,))
    return study


def _values(trial: Trial) -> list[float]:
    rate = trial.suggest_float("training.learning_rate", 1e-5, 1e-2, log=True)
    trial.suggest_float("training.dropout", 0.0, 0.5)
    fusion = trial.suggest_categorical("fusion", FUSIONS)
    gain = 0.0
    if fusion == "conv2d":
        gain = 0.02 * len(trial.suggest_categorical("model.fusion.kernel_size", ["[3]", "[3, 5]"]))
    if fusion == "fft":
        gain = -0.02 * trial.suggest_int("model.fusion.modes", 1, 8)
    weight = trial.suggest_float("penalty.weight", 1.0, 100.0) if trial.suggest_categorical("penalty", [1, 0]) else 0.0
    accuracy = 0.85 + gain - 0.05 * (math.log10(rate) + 3.5) ** 2
    return [accuracy - 0.001 * weight, 0.5 - 0.004 * weight + 0.1 * accuracy, 100 * rate + weight]


def points(
    values: Sequence[Sequence[float]], directions: Sequence[str], *, infeasible: Sequence[int] = ()
) -> tuple[Study, list[FrozenTrial]]:
    """A study of complete trials with these values, and its trials; those numbered break a constraint."""
    study = _named(list(directions))
    for number, value in enumerate(values):
        study.add_trial(
            create_trial(
                state=TrialState.COMPLETE,
                values=list(value),
                params={"x": float(number)},
                distributions={"x": FloatDistribution(0, 1000)},
                constraints={"c": 1.0 if number in infeasible else 0.0},
            )
        )
    return study, study.trials


def write_search(folder: Path, study: Study, *, least: int = 10, drawn: bool = True, **changed: Any) -> Path:
    """Write the results of `isoscope search` for a study."""
    several = len(study.directions) > 1
    marked = knee(front(study), study.directions)
    table = importances(study, least=least, resamples=2)
    write_parquet(trials_table(study), folder / "trials.parquet")
    write_parquet(reported(study), folder / "reported.parquet")
    write_parquet(table, folder / "importances.parquet")
    words = {"maximize": "maximise", "minimize": "minimise"}
    facts = {
        "name": "search",
        "experiment": "search",
        "objectives": dict(zip(NAMES, [words[one] for one in DIRECTIONS[: len(study.directions)]], strict=False)),
        "constraints": {"validation/accuracy": "≥ 0.7"},
        "counts": Counter(trial.state.name for trial in study.trials),
        "best": None if several or marked is None else marked.number,
        "front": [trial.number for trial in front(study)],
        "knee": marked.number if several and marked else None,
        "saved": saved_by_pruning(study)._asdict(),
        "best_params": marked.params if marked else {},
        "digest": DIGEST,
        "identity": {"inputs": {"data": "5b7c88c5"}},
    }
    (folder / "study.json").write_text(json.dumps(facts | changed), "utf-8")
    (folder / "figures").mkdir()
    if marked:
        (folder / "best.yaml").write_text("".join(f"{k}: {v}\n" for k, v in marked.params.items()), "utf-8")
    for name, svg in pictures(study, table, chosen=marked and marked.number) if drawn else []:
        (folder / "figures" / f"{name}.svg").write_text(svg, "utf-8")
    seal(folder)
    return folder
