"""Results of a search: best trials, Pareto front, parameter importances, steps saved by pruning."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import optuna
import pandas as pd
from optuna.importance import FanovaImportanceEvaluator
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

LEAST = 50
"""Fewest complete trials of an architecture for importances of its parameters."""
RESAMPLES = 20
"""Forests per interval."""
ALL = "all"
"""Name of the one architecture of a search without an axis."""
INSIDE = (2.5, 97.5)
"""Percentiles of an interval."""
COLUMNS = ["architecture", "objective", "parameter", "importance", "low", "high", "trials"]
Floats = npt.NDArray[np.float64]


class Saved(NamedTuple):
    """Steps (an epoch of a seed) that trials ran, steps of as many full trials, and the share saved."""

    run: int
    full: int
    share: float
    """1 − run / full; 0 if no trial has ended."""
    pruned: int
    """Pruned trials."""


def objectives(study: Study) -> list[str]:
    """Names of the objectives in order; `objective`, or `objective_1` …, if the study has no names."""
    several = len(study.directions) > 1
    unnamed = [f"objective_{one}" for one in range(1, len(study.directions) + 1)] if several else ["objective"]
    return study.metric_names or unnamed


def feasible(trial: FrozenTrial) -> bool:
    """Whether all constraints of a trial are at most 0; true without constraints."""
    return all(value <= 0 for value in trial.constraints.values())


def best(study: Study, trials: Sequence[FrozenTrial] | None = None) -> FrozenTrial | None:
    """The feasible complete trial with the best objective, the first of equal trials; None if there is none.

    `trials`: default all of the study. Raises `ValueError` for several objectives; see `front`.
    """
    if len(study.directions) > 1:
        raise ValueError(f"{len(study.directions)} objectives have no best trial but a front")
    sign = _signs(study.directions)[0]
    return min(
        _standing(study, trials),
        key=lambda trial: (sign * trial.values[0], trial.number),
        default=None,
    )


def front(study: Study, trials: Sequence[FrozenTrial] | None = None) -> list[FrozenTrial]:
    """The Pareto front: feasible complete trials that no other such trial dominates, by number.

    Equal trials are all kept. With one objective: all trials with the best value. `trials`: default all of the study.
    """
    among = sorted(_standing(study, trials), key=lambda trial: trial.number)
    values = np.array([trial.values for trial in among], dtype=float).reshape(-1, len(study.directions))
    losses = values * _signs(study.directions)
    unbeaten = np.ones(len(among), dtype=bool)
    for number, loss in enumerate(losses):
        if unbeaten[number]:
            unbeaten &= ~((losses >= loss).all(axis=1) & (losses > loss).any(axis=1))
    return [trial for trial, stands in zip(among, unbeaten, strict=True) if stands]


def _standing(study: Study, trials: Sequence[FrozenTrial] | None) -> list[FrozenTrial]:
    """Feasible complete trials."""
    among = study.get_trials(deepcopy=False) if trials is None else trials
    return [trial for trial in among if trial.state == TrialState.COMPLETE and feasible(trial)]


def knee(front: Sequence[FrozenTrial], directions: Sequence[StudyDirection]) -> FrozenTrial | None:
    """The trial of a front that lies farthest from the line between its ends, on the side of the ideal; the first of
    equals; None of an empty front.

    With losses scaled to [0, 1] over the front, u and v, the ends are (0, 1) and (1, 0), and the distance to the line
    between them is (1 − u − v) / √2: the trial with the smallest sum of scaled losses. So for more than two objectives
    too. Where a front bends the other way an end is given: all between are farther from the ideal than the line.
    Values that are not finite are never suggested. Source: Das 1999, On characterizing the "knee" of the Pareto curve,
    Structural Optimization 18, doi:10.1007/BF01195985.
    """
    finite = [trial for trial in front if np.isfinite(trial.values).all()]
    if not finite:
        return None
    losses = np.array([trial.values for trial in finite], dtype=float) * _signs(directions)
    low, reach = losses.min(axis=0), np.ptp(losses, axis=0)
    scaled = (losses - low) / np.where(reach > 0, reach, 1.0)
    sums = scaled.sum(axis=1).round(12)  # the ends lie on the line up to rounding
    return min(zip(sums, finite, strict=True), key=lambda one: (one[0], one[1].number))[1]


def importances(study: Study, *, least: int = LEAST, resamples: int = RESAMPLES, seed: int = 0) -> pd.DataFrame:
    """Importance of each parameter for each objective over the search space, by architecture: columns `COLUMNS`.

    `importance` is the share of a random forest's variance that is the parameter's main effect (fANOVA), so shares and
    those of interactions add up to 1; `low` and `high` are the 2.5th and 97.5th percentile over `resamples` forests,
    each of as many trials drawn with replacement. Of the complete trials of an architecture (a value of the axis; all
    of them together where there is none), only where `least` are there, and only of parameters that all of them have
    and that are not constant. The forest extrapolates: a sampler that explores little leaves much of it unseen.
    Source: Hutter, Hoos and Leyton-Brown 2014, https://proceedings.mlr.press/v32/hutter14.html.
    """
    rows = []
    for architecture, trials in architectures(study).items():
        for index, objective in enumerate(objectives(study)):
            finite = [trial for trial in trials if np.isfinite(trial.values[index])]
            found = _fanova(finite, index, seed) if len(finite) >= least else {}
            if not found:
                continue
            rng = np.random.default_rng(seed)
            draws = rng.integers(len(finite), size=(resamples, len(finite)))
            again = [_fanova([finite[one] for one in draw], index, seed) for draw in draws]
            for parameter, importance in found.items():
                spread = [one[parameter] for one in again if parameter in one]
                low, high = np.percentile(spread, INSIDE) if spread else (np.nan, np.nan)
                rows.append((architecture, objective, parameter, importance, low, high, len(finite)))
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.astype(dict.fromkeys(COLUMNS[:3], "string") | dict.fromkeys(COLUMNS[3:6], float) | {"trials": int})


def architectures(study: Study) -> dict[str, list[FrozenTrial]]:
    """Value of the axis → its complete trials, in the order of the choices; all trials without an axis."""
    axis = study.user_attrs.get("axis")
    if axis is None:
        return {ALL: complete(study)}
    found: dict[str, list[FrozenTrial]] = {}
    for trial in study.get_trials(deepcopy=False):
        for choice in getattr(trial.distributions.get(axis), "choices", ()):
            found.setdefault(str(choice), [])
    for trial in complete(study):
        if axis in trial.params:
            found.setdefault(str(trial.params[axis]), []).append(trial)
    return found


def saved_by_pruning(study: Study) -> Saved:
    """Steps that complete and pruned trials ran, against those of as many full trials.

    A complete trial has run all its steps (the study's attribute `steps`; where it has none, the most that any trial
    reported), a pruned one those it reported. Failed and running trials do not count.
    """
    trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
    steps = study.user_attrs.get("steps") or max((len(trial.intermediate_values) for trial in trials), default=0)
    pruned = [trial for trial in trials if trial.state == TrialState.PRUNED]
    unrun = sum(max(0, steps - len(trial.intermediate_values)) for trial in pruned)
    full = steps * len(trials)
    return Saved(full - unrun, full, unrun / full if full else 0.0, len(pruned))


def complete(study: Study) -> list[FrozenTrial]:
    """Complete trials by number."""
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def _signs(directions: Sequence[StudyDirection]) -> Floats:
    """Factors that turn values into losses: −1 for objectives to maximise."""
    return np.array([-1.0 if one == StudyDirection.MAXIMIZE else 1.0 for one in directions])


def _fanova(trials: Sequence[FrozenTrial], index: int, seed: int) -> dict[str, float]:
    """Parameter → importance, by name; empty if the objective or all parameters are constant."""
    values = {name: {str(trial.params.get(name)) for trial in trials} for name in trials[0].params}
    varied = sorted(
        name
        for name, distribution in trials[0].distributions.items()
        if len(values[name]) > 1 and all(trial.distributions.get(name) == distribution for trial in trials)
    )
    if not varied or len({trial.values[index] for trial in trials}) < 2:
        return {}
    with _quiet():
        alike = optuna.create_study(directions=["minimize"] * len(trials[0].values))
    alike.add_trials(trials)
    evaluator = FanovaImportanceEvaluator(seed=seed)
    try:
        found = evaluator.evaluate(alike, params=varied, target=lambda trial: trial.values[index])
    except RuntimeError:  # no tree of the forest saw two values
        return {}
    return {name: float(found[name]) for name in varied}


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's log lines about a temporary study."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
