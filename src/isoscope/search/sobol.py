"""Quasi-random proposals: trial `number` takes point `number` of one scrambled Sobol' sequence."""

from collections.abc import Sequence
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial


class SobolSampler(BaseSampler):
    """Propose the point of a trial: one coordinate for each name of the space, whether the trial draws it or not.

    `optuna.samplers.QMCSampler` counts its points in the storage, so a rebuilt study would begin the sequence again,
    and it draws names that the first trial lacks at random.
    """

    def __init__(self, names: Sequence[str], number: int, seed: int) -> None:
        from scipy.stats.qmc import Sobol

        sequence = Sobol(len(names), scramble=True, rng=seed)
        if number:
            sequence.fast_forward(number)
        self._point = dict(zip(names, sequence.random(1)[0].tolist(), strict=True))

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Nothing: every name has its own coordinate."""
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Nothing, as `infer_relative_search_space`."""
        return {}

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
