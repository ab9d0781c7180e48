"""The trials of a large study in outline: plain rows, where Optuna makes objects of every parameter and attribute."""

import json
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

from optuna.storages._rdb.models import (
    TrialModel,
    TrialSystemAttributeModel,
    TrialUserAttributeModel,
    TrialValueModel,
)
from optuna.study import Study
from optuna.trial import FrozenTrial
from sqlalchemy import select

SECONDS = "seconds"
"""Attribute of a trial: how long it was worked on, where that is not from its start to its end."""


def worked(trial: FrozenTrial) -> float:
    """Seconds of work on a trial as far as they are known; of one that runs, those that were noted."""
    noted = trial.user_attrs.get(SECONDS)
    if noted is not None:
        return float(noted)
    return trial.duration.total_seconds() if trial.duration else 0.0


def outline(study: Study) -> list[FrozenTrial]:
    """Trials by number, with state, times, values, constraints and noted seconds alone: what a status is made from."""
    values: dict[int, dict[int, float]] = defaultdict(dict)
    attributes: dict[int, dict[str, Any]] = defaultdict(dict)
    constraints: dict[int, dict[str, Any]] = defaultdict(dict)
    own = TrialModel.study_id == study._study_id
    with study._storage._backend.engine.connect() as connection:  # type: ignore[attr-defined]
        ask = connection.execute
        # States first: what comes in the meantime is of a trial that is seen as running.
        trials = TrialModel.__table__.columns
        columns = (trials[name] for name in ("trial_id", "number", "state", "datetime_start", "datetime_complete"))
        rows = ask(select(*columns).where(own).order_by(TrialModel.number)).all()
        kinds = (TrialValueModel.trial_id, TrialValueModel.objective, TrialValueModel.value, TrialValueModel.value_type)
        for trial, objective, value, kind in ask(select(*kinds).join(TrialModel).where(own)):
            values[trial][objective] = TrialValueModel.stored_repr_to_value(value, kind)
        user, system = TrialUserAttributeModel, TrialSystemAttributeModel
        seconds = select(user.trial_id, user.value_json).join(TrialModel).where(own, user.key == SECONDS)
        for trial, text in ask(seconds):
            attributes[trial][SECONDS] = json.loads(text)
        kept = select(system.trial_id, system.key, system.value_json).join(TrialModel)
        for trial, key, text in ask(kept.where(own, system.key.startswith("constraints"))):
            constraints[trial][key] = json.loads(text)
    return [
        FrozenTrial(
            number=number,
            trial_id=trial,
            state=state,
            value=None,
            values=[value for _, value in sorted(values[trial].items())] or None,
            datetime_start=_local(start),
            datetime_complete=_local(end),
            params={},
            distributions={},
            user_attrs=attributes[trial],
            system_attrs=constraints[trial],
            intermediate_values={},
        )
        for trial, number, state, start, end in rows
    ]


def _local(moment: datetime | None) -> datetime | None:
    """The tables have UTC, Optuna's objects local time, both without saying so."""
    return moment and moment.replace(tzinfo=UTC).astimezone().replace(tzinfo=None)
