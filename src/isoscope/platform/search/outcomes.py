"""Results of a search: best trials, Pareto front, parameter importances, steps saved by pruning."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import optuna
import pandas as pd
from optuna.search_space import intersection_search_space
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

LEAST = 50
"""Minimum number of complete trials of an architecture for importances of its parameters."""
RESAMPLES = 20
"""Random forests per interval."""
ALL = "all"
"""Name of the only architecture of a search without an axis."""
INSIDE = (2.5, 97.5)
"""Percentiles of an interval."""
COLUMNS = ["architecture", "objective", "parameter", "importance", "low", "high", "trials"]
PROVENANCE = "provenance"
"""Attribute of a trial: where and with which code it ran, the `digests` of its runs, its working `seconds`; also the
`steps` of a trial that is not pruned (an epoch of a seed each), and how many `epochs` it ran if it was."""
Floats = npt.NDArray[np.float64]


class Saved(NamedTuple):
    """Steps (an epoch of a seed) that trials ran, steps of as many full trials, and the share saved by pruning.

    `share`: 1 − run / full; 0 if no trial has ended. `pruned`: number of pruned trials.
    """

    run: int
    full: int
    share: float
    pruned: int


def worked(trial: FrozenTrial | Trial) -> float:
    """Return the recorded seconds of work on a trial; 0 if it has none."""
    return float(trial.user_attrs.get(PROVENANCE, {}).get("seconds", 0.0))


def feasible(trial: FrozenTrial) -> bool:
    """Whether all constraints of a trial are at most 0; true without constraints."""
    return all(value <= 0 for value in trial.constraints.values())


def front(study: Study, trials: Sequence[FrozenTrial] | None = None) -> list[FrozenTrial]:
    """Return the Pareto front: feasible complete trials that no other such trial dominates, by number.

    Equal trials are all kept. With one objective: all trials with the best value. `trials`: default all of the study.
    (`Study.best_trials` would copy every trial of the study.)
    """
    trials = study.get_trials(deepcopy=False) if trials is None else trials
    among = [trial for trial in trials if trial.state == TrialState.COMPLETE and feasible(trial)]
    values = np.array([trial.values for trial in among], dtype=float).reshape(-1, len(study.directions))
    losses = values * _signs(study.directions)
    beaten = [((losses <= loss).all(axis=1) & (losses < loss).any(axis=1)).any() for loss in losses]
    return [trial for trial, lost in zip(among, beaten, strict=True) if not lost]


def knee(front: Sequence[FrozenTrial], directions: Sequence[StudyDirection]) -> FrozenTrial | None:
    """Return the trial of a front that is farthest from the line between its ends, on the side of the ideal point.

    Of equal trials the first (with one objective: the first of the best). None for an empty front, and if the best two
    differ but are equally far, as on any front of two with two objectives: then the front itself suggests neither. With
    losses u and v scaled to [0, 1] over the front, the ends are (0, 1) and (1, 0), and the distance to the line between
    them is (1 − u − v) / √2. So it is the trial with the smallest sum of scaled losses; this also applies to more than
    two objectives. If the front bends the other way, its ends are the best, and equally far. Trials with values that
    are not finite are never suggested. Source: Das 1999, On characterizing the "knee" of the Pareto curve, Structural
    Optimization 18, doi:10.1007/BF01195985.
    """
    finite = [trial for trial in front if np.isfinite(trial.values).all()]
    if not finite:
        return None
    losses = np.array([trial.values for trial in finite], dtype=float) * _signs(directions)
    low, reach = losses.min(axis=0), np.ptp(losses, axis=0)
    scaled = (losses - low) / np.where(reach > 0, reach, 1.0)
    sums = scaled.sum(axis=1).round(12)  # the ends lie on the line up to rounding
    best = [trial for total, trial in zip(sums, finite, strict=True) if total == sums.min()]
    alike = len({tuple(trial.values) for trial in best}) == 1
    return min(best, key=lambda trial: trial.number) if alike else None


def importances(study: Study, *, least: int = LEAST, resamples: int = RESAMPLES, seed: int = 0) -> pd.DataFrame:
    """Return the importance of each parameter for each objective, by architecture: columns `COLUMNS`.

    - `importance`: share of a random forest's variance over the search space that is the parameter's main effect
      (fANOVA). These shares and those of interactions sum to 1.
    - `low`, `high`: 2.5th and 97.5th percentile over `resamples` forests, each from as many trials, drawn with
      replacement.

    An architecture is a value of the axis; without an axis, all trials belong to a single architecture. It needs at
    least `least` complete trials. Only parameters that all its trials have and that are not constant are included. The
    forest extrapolates: a sampler that explores little leaves much of the space unseen.
    Source: Hutter, Hoos and Leyton-Brown 2014, https://proceedings.mlr.press/v32/hutter14.html.
    """
    rows = []
    for architecture, trials in architectures(study).items():
        for index, objective in enumerate(study.metric_names or ()):
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
    """Return architecture → its complete trials, in the order of the choices; without an axis, all trials."""
    axis = study.user_attrs.get("axis")
    trials = study.get_trials(deepcopy=False)
    choices = dict.fromkeys(
        one for trial in trials for one in getattr(trial.distributions.get(str(axis)), "choices", ())
    )
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    if axis is None:
        return {ALL: complete}
    return {group: [trial for trial in complete if trial.params.get(axis) == group] for group in choices}


def saved_by_pruning(study: Study) -> Saved:
    """Compare the steps that complete and pruned trials ran with those of as many full trials.

    Failed and running trials do not count.
    """
    trials = ran(study)
    run, full = trials["run"].sum(), trials["full"].sum()
    return Saved(int(run), int(full), float(1 - run / full) if full else 0.0, int(trials["pruned"].sum()))


def ran(study: Study) -> pd.DataFrame:
    """Return the steps that each complete or pruned trial `run`, those of a `full` trial, and whether it was `pruned`.

    A step is an epoch of a seed. A complete trial has run all.
    """
    trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
    rows = []
    for trial in trials:
        pruned, known = trial.state == TrialState.PRUNED, trial.user_attrs.get(PROVENANCE, {})
        full = known.get("steps", 0)
        rows.append((known.get("epochs", 0) if pruned else full, full, pruned))
    return pd.DataFrame(rows, columns=["run", "full", "pruned"]).astype({"run": int, "full": int, "pruned": bool})


def _signs(directions: Sequence[StudyDirection]) -> Floats:
    """Return the factors that turn values into losses: −1 for objectives to maximise."""
    return np.array([-1.0 if one == StudyDirection.MAXIMIZE else 1.0 for one in directions])


def _fanova(trials: Sequence[FrozenTrial], index: int, seed: int) -> dict[str, float]:
    """Return parameter → importance, by name; empty if the objective or all parameters are constant."""
    space = intersection_search_space([*trials])  # sorted by name
    varied = [name for name in space if len({str(trial.params[name]) for trial in trials}) > 1]
    if not varied or len({trial.values[index] for trial in trials}) < 2:
        return {}
    from optuna.importance import FanovaImportanceEvaluator  # imports scikit-learn (1 s): no search needs it to run

    alike = optuna.create_study(directions=["minimize"] * len(trials[0].values))
    alike.add_trials(trials)
    evaluator = FanovaImportanceEvaluator(seed=seed)
    try:
        found = evaluator.evaluate(alike, params=varied, target=lambda trial: trial.values[index])
    except RuntimeError:  # no tree of the forest saw two values
        return {}
    return {name: float(found[name]) for name in varied}
