"""Optuna's ask and tell, each in one transaction.

A trial is drawn before it exists and written with all that it chose, so nobody sees one that is half begun.
"""

import copy
import math
from collections.abc import Container, Mapping, Sequence
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from isoscope.config.search import Search
from isoscope.search.space import suggest


def ask(
    study: Study,
    search: Search,
    number: int,
    trials: Sequence[FrozenTrial],
    facts: Mapping[str, Any],
) -> Trial:
    """The next trial of a study, running: what its sampler draws for `number` from the history `trials`.

    One transaction, where `Study.ask` and a suggestion for each name take one each. `facts`: its attributes from the
    first moment. Its number is another where another program has added a trial meanwhile.
    """
    draft = create_trial(state=TrialState.RUNNING, user_attrs=dict(facts))
    draft.number = number
    drawing = copy.copy(study)
    drawing._storage = _Drawing(study._storage, trials, draft)  # type: ignore[assignment]
    trial = Trial(drawing, draft._trial_id)
    suggest(search, trial)
    # The same trial, now of the study: another would be read back, and asked its sampler again.
    trial.study, trial.storage = study, study._storage
    draft._trial_id = trial._trial_id = trial.storage.create_new_trial(study._study_id, draft)
    if trial.storage.get_trial_id_from_study_id_trial_number(study._study_id, number) != trial._trial_id:
        draft.number = trial.storage.get_trial_number_from_id(trial._trial_id)
    return trial


def tell(study: Study, trial: Trial, state: TrialState, values: Sequence[float] | None) -> None:
    """End a trial; one that is pruned is worth what it reported last. Raises `UpdateFinishedTrialError` if it has.

    `Study.tell` reads the trial before and after. Of our samplers none has anything to do after a trial but Optuna's
    grid, which asks for an end then (`study.spent` knows it before).
    """
    reported = trial._cached_frozen_trial.intermediate_values
    if state == TrialState.PRUNED and reported and not math.isnan(last := reported[max(reported)]):
        values = [last]
    study._storage.set_trial_state_values(trial._trial_id, state, values)


class _Drawing:
    """A storage as a sampler sees it that draws: the trials known, and the draft, which alone is written to."""

    def __init__(self, storage: Any, trials: Sequence[FrozenTrial], draft: FrozenTrial) -> None:
        self._storage, self._trials, self._draft = storage, [*trials, draft], draft

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)  # what is asked of the study itself

    def get_all_trials(
        self, study: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        found = [trial for trial in self._trials if states is None or trial.state in states]
        return copy.deepcopy(found) if deepcopy else found

    def get_trial(self, trial: int) -> FrozenTrial:
        return self._draft

    def get_trial_system_attrs(self, trial: int) -> dict[str, Any]:
        return self._draft.system_attrs

    def set_trial_system_attr(self, trial: int, key: str, value: Any) -> None:
        self._draft.system_attrs[key] = value

    def set_trial_param(self, trial: int, name: str, value: float, distribution: BaseDistribution) -> None:
        """The draft is what the trial that draws knows of itself, and has it."""
