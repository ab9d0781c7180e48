"""How long a trial was worked on, and trials in outline as Optuna has them whole."""

from datetime import datetime, timedelta
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState, create_trial

from isoscope.search.jobs import Outcome
from isoscope.search.outline import SECONDS, outline, worked
from isoscope.search.storage import let_go, place
from isoscope.search.study import create, opened
from isoscope.search.worker import Worker
from search_work import IDENTITY, a_search

NOW = datetime(2026, 7, 1, 12)


@pytest.mark.parametrize(
    "state, noted, seconds",
    [
        (TrialState.COMPLETE, {}, 90.0),
        (TrialState.FAIL, {SECONDS: 3.5}, 3.5),
        (TrialState.RUNNING, {}, 0.0),
        (TrialState.RUNNING, {SECONDS: 60.0}, 60.0),
        (TrialState.WAITING, {SECONDS: 4.0}, 4.0),
    ],
)
def test_noted_work_counts_else_the_time_from_start_to_end(
    state: TrialState, noted: dict[str, float], seconds: float
) -> None:
    trial = create_trial(state=state, value=1.0 if state == TrialState.COMPLETE else None, user_attrs=noted)
    trial.datetime_start = NOW
    trial.datetime_complete = NOW + timedelta(seconds=90) if state.is_finished() else None
    assert worked(trial) == seconds


def test_only_work_with_a_break_is_noted_and_the_outline_is_the_study_s(tmp_path: Path) -> None:
    search, where = a_search(), place(None, tmp_path)
    one = opened(search, create(search, IDENTITY, where, steps=1), where, steps=1)
    worker = Worker(one, lambda chosen: [], wishes=None, note=lambda outcome: None, say=print, provenance={})
    broken = create_trial(state=TrialState.RUNNING, params={}, distributions={})
    broken.datetime_start = datetime.now() - timedelta(hours=8)  # since when its worker was gone for a night
    trial = optuna.trial.Trial(one.study, one.study._storage.create_new_trial(one.study._study_id, broken))
    for begun in (trial, None, None):
        begun = begun or worker._next()[0]
        one.leases.take(begun.number)
        facts = {SECONDS: 0.25}
        worker._tell(begun, Outcome(begun.number, TrialState.COMPLETE, [0.5], begun.params, facts, 0.0))
    worker._next()
    trials = one.study.get_trials()
    assert [trial.user_attrs.get(SECONDS) for trial in trials] == [0.25, None, None, None]
    assert worked(trials[0]) == 0.25
    assert 0 < worked(trials[1]) < 60

    def seen(found: list[optuna.trial.FrozenTrial]) -> list[tuple[object, ...]]:
        return [
            (each.number, each.state, each.values, each.datetime_start, each.datetime_complete, worked(each))
            for each in found
        ]

    assert seen(outline(one.study)) == seen(trials)
    one.leases.close()
    let_go(one.study)
