"""Make Optuna's samplers and pruners by name; options whose defaults a later Optuna may change are set here."""

import hashlib
import warnings

from optuna import pruners, samplers
from optuna.exceptions import ExperimentalWarning

from isoscope.config import searching as config
from isoscope.config.searching import Search
from isoscope.search.sobol import SobolSampler


def sampler(search: Search, number: int) -> samplers.BaseSampler:
    """A fresh sampler for trial `number`.

    A sampler kept between trials carries the state of its generator, so an interrupted search would propose different
    trials. A fresh sampler depends only on the seed, the number and the history of the study.
    """
    seed = _seed(search.sampler.seed, number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # the user names them
        match search.sampler:
            case config.TPE() as options:
                return samplers.TPESampler(
                    n_startup_trials=options.startup, seed=seed, multivariate=True, group=True, constant_liar=True
                )
            case config.GP() as options:
                return samplers.GPSampler(n_startup_trials=options.startup, seed=seed, warn_independent_sampling=False)
            case config.NSGAII() as options:
                return samplers.NSGAIISampler(population_size=options.population, seed=seed)
            case config.Grid():
                return samplers.BruteForceSampler(seed=seed)
            case config.QMC():
                return SobolSampler(list(search.space), number, search.sampler.seed)
            case config.Random():
                return samplers.RandomSampler(seed)


def pruner(search: Search, steps: int) -> pruners.BasePruner:
    """The pruner for trials of `steps` steps."""
    match search.pruner:
        case config.Median() as options:
            return pruners.MedianPruner(n_startup_trials=options.startup, n_warmup_steps=options.warmup)
        case config.Hyperband() as options:
            return pruners.HyperbandPruner(max_resource=steps, reduction_factor=options.reduction)
        case config.Wilcoxon() as options:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)
                return pruners.WilcoxonPruner(p_threshold=options.p, n_startup_steps=options.startup)
        case config.NoPruner():
            return pruners.NopPruner()


def _seed(seed: int, number: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} {number}".encode()).digest()[:4], "little")
