"""Figures of searches whose trials have equal, missing or no numbers: drawn or left out, no axis without ends."""

import math
import re
from collections.abc import Callable

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.study import Study
from optuna.trial import TrialState, create_trial

from isoscope.platform.search.outcomes import importances
from isoscope.platform.search.search_figures import pictures
from search_material import new


def filled(add: Callable[[Study, int], None], *, objectives: int = 1, trials: int = 6) -> Study:
    study = new(objectives)
    for number in range(trials):
        add(study, number)
    return study


def trial(study: Study, values: list[float], *, rate: float = 0.1, reports: dict[int, float] | None = None) -> None:
    """A complete trial with one number and one choice."""
    study.add_trial(
        create_trial(
            values=values,
            params={"training.learning_rate": rate, "fusion": "additive"},
            distributions={
                "training.learning_rate": FloatDistribution(1e-5, 1.0, log=True),
                "fusion": CategoricalDistribution(("additive", "conv2d")),
            },
            intermediate_values=reports or {},
        )
    )


def pruned(study: Study, number: int) -> None:
    study.add_trial(create_trial(state=TrialState.PRUNED, intermediate_values={0: math.nan, 1: math.nan}))


KINDS: dict[str, Callable[[], Study]] = {
    "equal values": lambda: filled(lambda study, number: trial(study, [0.5], rate=0.1 + number / 100)),
    "equal parameters": lambda: filled(lambda study, number: trial(study, [0.5 + number / 100])),
    "all equal": lambda: filled(lambda study, number: trial(study, [0.5])),
    "one trial": lambda: filled(lambda study, number: trial(study, [0.5]), trials=1),
    "endless": lambda: filled(lambda study, number: trial(study, [math.inf])),
    "one endless": lambda: filled(lambda study, number: trial(study, [math.inf if number else 0.5])),
    "reports missing": lambda: filled(lambda study, number: trial(study, [0.5], reports={0: math.nan, 1: math.nan})),
    "all pruned": lambda: filled(pruned),
    "all failed": lambda: filled(lambda study, number: study.add_trial(create_trial(state=TrialState.FAIL))),
    "none": new,
    "two equal objectives": lambda: filled(lambda study, number: trial(study, [0.5, 0.5]), objectives=2),
    "an endless objective": lambda: filled(lambda study, number: trial(study, [number, math.inf]), objectives=2),
}


@pytest.mark.parametrize("kind", KINDS)
def test_figures_survive_trials_without_numbers(kind: str) -> None:
    study = KINDS[kind]()
    found = importances(study, least=3, resamples=2)
    for name, svg in pictures(study, found, chosen=0 if study.trials else None, metadata={}):
        assert not re.search(r' d="[^"]*(nan|inf)', svg), name
