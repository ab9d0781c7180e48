"""Convert the trials of a search into a table, and back; rebuild or extend a study from stored trials."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    IntDistribution,
    distribution_to_json,
    json_to_distribution,
)
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from isoscope.base.errors import InputError, brief
from isoscope.platform.config.tree import as_text
from isoscope.platform.search.outcomes import PROVENANCE, feasible, front

TIME, TEXTS = pd.ArrowDtype(pa.timestamp("us", tz="UTC")), pd.ArrowDtype(pa.list_(pa.string()))
"""Types of times, which Optuna stores without a zone, and of lists."""


def trials_table(study: Study) -> pd.DataFrame:
    """One row per trial, by number, with readable columns and the column `trial` for `rebuilt`.

    Columns: number; state; started and ended (UTC); seconds (of work where the trial noted them, else from start to
    end); feasible (of complete trials) and on_front; `objective/<name>`; `constraint/<name>`; `param/<name>` (numbers
    as numbers, choices as text); digests of its runs; trial (JSON as Python writes it, NaN included). Missing is
    missing, never 0.
    """
    trials, best = study.get_trials(deepcopy=False), {trial.number for trial in front(study)}
    spaces = {name: one for trial in trials for name, one in trial.distributions.items()}
    objectives = [f"objective/{name}" for name in study.metric_names or ()]
    kinds: dict[str, Any] = {
        "number": "int64",
        "state": "string",
        **dict.fromkeys(("started", "ended"), TIME),
        "seconds": "float64",
        "feasible": "boolean",
        "on_front": "bool",
        **dict.fromkeys(objectives, "float64"),
        **{f"constraint/{name}": "float64" for trial in trials for name in trial.constraints},
        **{f"param/{name}": _kind(one) for name, one in spaces.items()},
        "digests": TEXTS,
        "trial": "string",
    }
    rows = [
        {
            "number": trial.number,
            "state": trial.state.name,
            "started": trial.datetime_start and trial.datetime_start.astimezone(UTC),
            "ended": trial.datetime_complete and trial.datetime_complete.astimezone(UTC),
            "seconds": _seconds(trial),
            "feasible": feasible(trial) if trial.state == TrialState.COMPLETE else None,
            "on_front": trial.number in best,
            **dict(zip(objectives, trial.values or (), strict=False)),
            **{f"constraint/{name}": value for name, value in trial.constraints.items()},
            **{f"param/{name}": _told(value, spaces[name]) for name, value in trial.params.items()},
            "digests": list(trial.user_attrs.get(PROVENANCE, {}).get("digests", [])),
            "trial": _written(trial),
        }
        for trial in trials
    ]
    return pd.DataFrame(rows, columns=[*kinds], dtype=object).astype(kinds)


def reported(study: Study) -> pd.DataFrame:
    """Return what each trial reported, a row per trial and step: number, state, step (from 1), value."""
    rows = [
        (trial.number, trial.state.name, step, value)
        for trial in study.trials
        for step, value in sorted(trial.intermediate_values.items())
    ]
    kinds = {"number": "int64", "state": "string", "step": "int64", "value": "float64"}
    return pd.DataFrame(rows, columns=[*kinds]).astype(kinds)


def rebuilt(table: pd.DataFrame) -> list[FrozenTrial]:
    """The trials of a `trials_table`, by number, to be added to a new study. Raises `ValueError` for gaps and doubles.

    Tuples in attributes come back as lists, as from Optuna's databases.
    """
    trials = sorted((_read(text) for text in table["trial"]), key=lambda trial: trial.number)
    numbers = [trial.number for trial in trials]
    if numbers != [*range(len(numbers))]:
        raise ValueError(f"expected trials 0 to {len(numbers) - 1}, each once, got {numbers}")
    return trials


def _written(trial: FrozenTrial) -> str:
    return json.dumps(
        {
            "number": trial.number,
            "state": trial.state.name,
            "values": trial.values,
            "started": trial.datetime_start,
            "ended": trial.datetime_complete,
            "params": trial.params,
            "distributions": {name: distribution_to_json(one) for name, one in trial.distributions.items()},
            "intermediate_values": list(trial.intermediate_values.items()),  # JSON has no numbers for keys
            "user_attrs": trial.user_attrs,
            "system_attrs": trial.system_attrs,
        },
        default=datetime.isoformat,
    )


def _read(text: str) -> FrozenTrial:
    found = json.loads(text)
    for name in ("params", "distributions", "user_attrs", "system_attrs"):
        if not isinstance(found[name], dict):
            raise ValueError(f"trial {found['number']}: {name} is {brief(found[name])}; expected a mapping")
    values = found["values"]
    if values is not None and not all(isinstance(value, float | int) for value in values):
        raise ValueError(f"trial {found['number']}: values {brief(values)}; expected numbers")
    started, ended = found["started"], found["ended"]
    return FrozenTrial(
        number=found["number"],
        trial_id=found["number"],
        state=TrialState[found["state"]],
        value=None,
        values=values,
        datetime_start=started and datetime.fromisoformat(started),
        datetime_complete=ended and datetime.fromisoformat(ended),
        params=found["params"],
        distributions={name: json_to_distribution(one) for name, one in found["distributions"].items()},
        intermediate_values=dict(found["intermediate_values"]),
        user_attrs=found["user_attrs"],
        system_attrs=found["system_attrs"],
    )


def _kind(space: BaseDistribution) -> str:
    if isinstance(space, CategoricalDistribution):
        return "string"
    return "Int64" if isinstance(space, IntDistribution) else "float64"


def _told(value: Any, space: BaseDistribution) -> Any:
    return as_text(value) if isinstance(space, CategoricalDistribution) else value


def _seconds(trial: FrozenTrial) -> float | None:
    elapsed = max(0.0, trial.duration.total_seconds()) if trial.duration else None
    return trial.user_attrs.get(PROVENANCE, {}).get("seconds", elapsed)


class DamagedError(InputError):
    """Files of trials are damaged: `reason` in one line, without the cure."""

    def __init__(self, reason: str, cure: str) -> None:
        super().__init__(f"{reason}; {cure}")
        self.reason = reason


class StoredTrials(NamedTuple):
    """Trials stored in files (`reports/search/`), with the identity of their search."""

    identity: Mapping[str, Any]
    trials: list[FrozenTrial]
    default: Mapping[str, float] | None
    """Metrics of the default arm that constraints compare with."""
    verify: Callable[[], None] = lambda: None
    """Called before trials are added to a study. Raises `InputError` if they must not be believed."""


def needed_of(
    kept: Callable[[], StoredTrials | None], identity: Mapping[str, Any], *, needed: bool
) -> StoredTrials | None:
    """Trials from files, if they belong to this identity. Damaged files are an error only if they are `needed`."""
    try:
        found = kept()
    except DamagedError as damage:
        if needed:
            raise
        print(f"warning: {damage.reason}; the storage has the study: the folder is written again", file=sys.stderr)
        return None
    return found if found is not None and found.identity == identity else None


def add(study: Study, trials: Sequence[FrozenTrial]) -> None:
    """Add trials under the next numbers; a trial that was running is queued, with its choices."""
    for trial in trials:
        if trial.state == TrialState.RUNNING:
            study.enqueue_trial(trial.params, user_attrs=trial.user_attrs)
        else:
            study.add_trial(trial)


def catch_up(study: Study, kept: StoredTrials) -> None:
    """Add trials from files that the study lacks, as after `dvc pull` of results from another machine.

    Raises `InputError` if the two differ in a trial: in a value that both have drawn, or in their results.
    """
    trials = study.get_trials(deepcopy=False)
    if len(kept.trials) <= len(trials):
        return
    for ours, theirs in zip(trials, kept.trials, strict=False):
        common = ours.params.keys() & theirs.params.keys()
        ended = ours.state.is_finished() and theirs.state.is_finished()
        if any(ours.params[one] != theirs.params[one] for one in common) or (ended and ours.values != theirs.values):
            raise InputError(
                f"search {study.study_name!r}: trial {ours.number} differs between the storage and the longer "
                "reports/search/trials.parquet; delete one of them"
            )
    kept.verify()
    add(study, kept.trials[len(trials) :])
