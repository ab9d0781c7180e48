"""The trials of a large study in outline: plain rows, where Optuna makes objects of every parameter and attribute."""

import json
from collections import defaultdict
from functools import lru_cache
from typing import Any

from optuna.distributions import BaseDistribution, json_to_distribution
from optuna.storages._rdb.models import (
    TrialModel,
    TrialParamModel,
    TrialSystemAttributeModel,
    TrialUserAttributeModel,
    TrialValueModel,
)
from optuna.study import Study
from optuna.trial import FrozenTrial
from sqlalchemy import select

from isoscope.analysis.provenance import PROVENANCE


def outline(study: Study, *, choices: bool = False) -> list[FrozenTrial]:
    """Trials by number, each with its state, values, constraints and provenance alone: what a status is made from.

    `choices`: also what they chose.
    """
    values: dict[int, dict[int, float]] = defaultdict(dict)
    attributes: dict[int, dict[str, Any]] = defaultdict(dict)
    constraints: dict[int, dict[str, Any]] = defaultdict(dict)
    params: dict[int, dict[str, Any]] = defaultdict(dict)
    own = TrialModel.study_id == study._study_id
    with study._storage._backend.engine.connect() as connection:  # type: ignore[attr-defined]
        ask = connection.execute
        # States first: what comes in the meantime is of a trial that is seen as running.
        columns = (TrialModel.trial_id, TrialModel.number, TrialModel.state)
        rows = ask(select(*columns).where(own).order_by(TrialModel.number)).all()
        kinds = (TrialValueModel.trial_id, TrialValueModel.objective, TrialValueModel.value, TrialValueModel.value_type)
        for trial, objective, value, kind in ask(select(*kinds).join(TrialModel).where(own)):
            values[trial][objective] = TrialValueModel.stored_repr_to_value(value, kind)
        user, system = TrialUserAttributeModel, TrialSystemAttributeModel
        noted = select(user.trial_id, user.value_json).join(TrialModel).where(own, user.key == PROVENANCE)
        for trial, text in ask(noted):
            attributes[trial][PROVENANCE] = json.loads(text)
        kept = select(system.trial_id, system.key, system.value_json).join(TrialModel)
        for trial, key, text in ask(kept.where(own, system.key.startswith("constraints"))):
            constraints[trial][key] = json.loads(text)
        if choices:
            one = TrialParamModel
            drawn = select(one.trial_id, one.param_name, one.param_value, one.distribution_json).join(TrialModel)
            for trial, name, value, text in ask(drawn.where(own)):
                params[trial][name] = _distribution(text).to_external_repr(value)
    return [
        FrozenTrial(
            number=number,
            trial_id=trial,
            state=state,
            value=None,
            values=[value for _, value in sorted(values[trial].items())] or None,
            datetime_start=None,
            datetime_complete=None,
            params=params[trial],
            distributions={},
            user_attrs=attributes[trial],
            system_attrs=constraints[trial],
            intermediate_values={},
        )
        for trial, number, state in rows
    ]


@lru_cache(maxsize=256)
def _distribution(text: str) -> BaseDistribution:
    return json_to_distribution(text)
