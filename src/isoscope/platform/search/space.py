"""Draw a trial from the search space, in Optuna's terms: its samplers and pruners, and the points of a grid.

Options of samplers and pruners whose defaults a later Optuna may change are set here. Quasi-random proposals: trial
`number` takes point `number` of one scrambled Sobol' sequence.
"""

import copy
import hashlib
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from optuna import pruners, samplers
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.study import Study
from optuna.trial import FixedTrial, FrozenTrial, Trial

from isoscope.platform.config import searching as config
from isoscope.platform.config.searching import Dimension, Search, branches, exists


def suggest(search: Search, trial: Trial | FixedTrial) -> dict[str, Any]:
    """Draw every name of the space that exists under the earlier choices, in order.

    A name that does not exist is never drawn, so no sampler learns from it. Optuna has no list-valued choices: lists
    are stored as JSON.
    """
    chosen: dict[str, Any] = {}
    for name, one in search.space.items():
        if exists(one, chosen):
            known = _choices(one)
            chosen[name] = known[trial.suggest_categorical(name, [*known])] if known else _number(trial, name, one)
    return chosen


def chosen(search: Search, params: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a stored trial, from its parameters in the study."""
    known = {name: _choices(one) for name, one in search.space.items() if name in params}
    return {name: choices.get(params[name], params[name]) for name, choices in known.items()}


def inside(search: Search, trial: FrozenTrial) -> FrozenTrial | None:
    """Return an ended trial of another space as a trial of this space; None if its choices lie outside."""
    fixed = FixedTrial(trial.params)
    try:
        with warnings.catch_warnings(action="error"):  # a number out of range is a warning
            suggest(search, fixed)
    except (ValueError, UserWarning):
        return None
    if fixed.params != trial.params:
        return None
    moved = copy.deepcopy(trial)
    moved.distributions = fixed.distributions
    return moved


def _choices(one: Dimension) -> dict[Any, Any]:
    """Return each choice by the value that stands for it in the study."""
    return {json.dumps(choice) if isinstance(choice, tuple) else choice: choice for choice in one.choices}


def _number(trial: Trial | FixedTrial, name: str, one: Dimension) -> float | int:
    low, high = one.bounds
    if one.whole:
        return trial.suggest_int(name, int(low), int(high), step=int(one.step or 1), log=one.log)
    return trial.suggest_float(name, low, high, step=one.step, log=one.log)


def combinations(search: Search) -> int:
    """Return the number of points of the grid: the trials of a full grid search."""
    return sum(math.prod(_values(one) for one in others.values()) for _, others in branches(search))


def point(search: Search, chosen: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Return the grid point of a trial: choices, and numbers in steps, as samplers round differently.

    None if it is incomplete. The trials of a study lie on its grid, since its space is part of its identity.
    """
    space = {name: one for name, one in search.space.items() if exists(one, chosen)}
    if not space.keys() <= chosen.keys():
        return None
    return tuple(
        chosen[name] if one.choices else round((chosen[name] - one.bounds[0]) / (one.step or 1))
        for name, one in space.items()
    )


def wanted(search: Search) -> int:
    """Return the number of trials of a search: its budget, or the size of the grid if that is smaller."""
    trials = search.budget.trials
    return min(trials, combinations(search)) if search.sampler.kind == "grid" else trials


def _values(one: Dimension) -> int:
    if one.choices:
        return len(one.choices)
    low, high = one.bounds
    return round((high - low) / (one.step or 1)) + 1


class SobolSampler(samplers.RandomSampler):
    """Propose the point of a trial: one coordinate for each name of the space, whether the trial draws it or not.

    `optuna.samplers.QMCSampler` counts its points in the storage, so a rebuilt study would begin the sequence again,
    and it draws names that the first trial lacks at random.
    """

    def __init__(self, names: Sequence[str], number: int, seed: int) -> None:
        from scipy.stats.qmc import Sobol

        super().__init__(seed)
        sequence = Sobol(len(names), scramble=True, rng=seed)
        if number:
            sequence.fast_forward(number)
        self._point = dict(zip(names, sequence.random(1)[0].tolist(), strict=True))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """The value at this name's coordinate."""
        return value_at(param_distribution, self._point[param_name])


def value_at(distribution: BaseDistribution, share: float) -> Any:
    """The value below which `share` (0 ≤ share < 1) of a distribution lies; each step and choice has equal room."""
    match distribution:
        case CategoricalDistribution():
            return distribution.choices[int(share * len(distribution.choices))]
        case IntDistribution(log=True):
            low, high = distribution.low - 0.5, distribution.high + 0.5
            return min(max(round(low * (high / low) ** share), distribution.low), distribution.high)
        case FloatDistribution(log=True):
            return min(distribution.low * (distribution.high / distribution.low) ** share, distribution.high)
        case IntDistribution() | FloatDistribution():
            low, high, step = distribution.low, distribution.high, distribution.step
            if step is None:
                return low + share * (high - low)
            return min(low + step * int(share * (round((high - low) / step) + 1)), high)
        case _:
            raise TypeError(f"{type(distribution).__name__}: no such distribution in a search")


def sampler(search: Search, number: int) -> samplers.BaseSampler:
    """A fresh sampler for trial `number`.

    A sampler kept between trials carries the state of its generator, so an interrupted search would propose different
    trials. A fresh sampler depends only on the seed, the number and the history of the study.
    """
    options = search.sampler
    seed = int.from_bytes(hashlib.sha256(f"{options.seed} {number}".encode()).digest()[:4], "little")
    with warnings.catch_warnings(action="ignore", category=ExperimentalWarning):  # the user names them
        match options:
            case config.ModelBased(kind="tpe"):
                return samplers.TPESampler(
                    n_startup_trials=options.startup, seed=seed, multivariate=True, group=True, constant_liar=True
                )
            case config.ModelBased():
                return samplers.GPSampler(n_startup_trials=options.startup, seed=seed, warn_independent_sampling=False)
            case config.NSGAII():
                return samplers.NSGAIISampler(population_size=options.population, seed=seed)
            case config.Unguided(kind="grid"):
                return samplers.BruteForceSampler(seed=seed)
            case config.Unguided(kind="qmc"):
                return SobolSampler(list(search.space), number, options.seed)
            case config.Unguided():
                return samplers.RandomSampler(seed)


def pruner(search: Search, steps: int) -> pruners.BasePruner:
    """The pruner for trials of `steps` steps."""
    match search.pruner:
        case config.Median() as options:
            return pruners.MedianPruner(n_startup_trials=options.startup, n_warmup_steps=options.warmup)
        case config.Hyperband() as options:
            return pruners.HyperbandPruner(max_resource=steps, reduction_factor=options.reduction)
        case config.Wilcoxon() as options:
            with warnings.catch_warnings(action="ignore", category=ExperimentalWarning):
                return pruners.WilcoxonPruner(p_threshold=options.p, n_startup_steps=options.startup)
        case config.NoPruner():
            return pruners.NopPruner()
