"""Trials stored in files: rebuild a study from them, or extend it."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import optuna
from optuna.trial import FrozenTrial, TrialState

from isoscope.base.errors import InputError


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


def nothing_stored() -> None:
    """No trials in files."""


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


def add(study: optuna.Study, trials: Sequence[FrozenTrial]) -> None:
    """Add trials under the next numbers; a trial that was running is queued, with its choices."""
    for trial in trials:
        if trial.state == TrialState.RUNNING:
            study.enqueue_trial(trial.params, user_attrs=trial.user_attrs)
        else:
            study.add_trial(trial)


def catch_up(study: optuna.Study, kept: StoredTrials) -> None:
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
