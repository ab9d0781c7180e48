"""A study rebuilt from the table of its trials, as in a fresh clone, and a study that is behind its table."""

from pathlib import Path
from typing import Any

import optuna
import pytest

from isoscope.base.errors import InputError
from isoscope.platform.config.searching import Search
from isoscope.platform.search.outcomes import PROVENANCE
from isoscope.platform.search.status import in_words, status
from isoscope.platform.search.storage import Place, place
from isoscope.platform.search.stored_trials import StoredTrials
from isoscope.platform.search.study import held_study, identity, stored_study
from isoscope.platform.search.trials_table import rebuilt, trials_table
from search_work import IDENTITY, a_search, driven

STATES = optuna.trial.TrialState
QMC = {"sampler": {"kind": "qmc", "seed": 3}}


def go_on(
    where: Place, trials: int, *, kept: StoredTrials | None = None, left: int = 0, **changed: Any
) -> optuna.Study:
    """A study with a number of trials, of which the last `left` are started and not finished."""
    search = a_search(budget={"trials": trials, "hours": None}, **changed)
    with driven(search, where, kept=lambda: kept) as (one, ask):
        while len(one.study.get_trials(states=(STATES.COMPLETE,))) < trials - left:
            trial = ask()
            assert trial
            one.study.tell(trial, trial.params["penalty.weight"])
        assert all(ask() for _ in range(left))
    return one.study


def kept_of(study: optuna.Study) -> StoredTrials:
    return StoredTrials(IDENTITY, rebuilt(trials_table(study)), None)


def test_a_trial_that_had_not_ended_keeps_its_number_and_its_choices(tmp_path: Path) -> None:
    before = go_on(place(None, tmp_path / "before"), 6, left=2)
    assert [trial.state for trial in before.trials] == [STATES.COMPLETE] * 4 + [STATES.RUNNING] * 2
    after = go_on(place(None, tmp_path / "after"), 6, kept=kept_of(before))
    assert [trial.params for trial in after.trials] == [trial.params for trial in before.trials]
    assert [trial.state for trial in after.trials] == [STATES.COMPLETE] * 6


def test_a_trial_that_ended_in_one_place_alone_is_no_parting(tmp_path: Path) -> None:
    before = go_on(place(None, tmp_path / "before"), 6, left=2)
    here = place(None, tmp_path / "here")
    go_on(here, 5, kept=kept_of(before))  # trial 4 ended here, 5 waits
    there = go_on(place(None, tmp_path / "there"), 8, kept=kept_of(before))
    found = go_on(here, 8, kept=kept_of(there))
    assert [trial.params for trial in found.trials] == [trial.params for trial in there.trials]
    assert [trial.state for trial in found.trials] == [STATES.COMPLETE] * 8


def test_a_sequence_goes_on_where_it_was(tmp_path: Path) -> None:
    whole = go_on(place(None, tmp_path / "whole"), 12, **QMC)
    before = go_on(place(None, tmp_path / "before"), 5, **QMC)
    after = go_on(place(None, tmp_path / "after"), 12, kept=kept_of(before), **QMC)
    assert [trial.params for trial in after.trials] == [trial.params for trial in whole.trials]
    values = [trial.params["penalty.weight"] for trial in whole.trials]
    assert len(set(values)) == len(values)


def test_a_study_catches_up_with_a_longer_table(tmp_path: Path) -> None:
    """As after `dvc pull` of a study that somebody else continued."""
    there = go_on(place(None, tmp_path / "there"), 8)
    here = place(None, tmp_path / "here")
    go_on(here, 3)
    found = go_on(here, 8, kept=kept_of(there))
    assert [trial.params for trial in found.trials] == [trial.params for trial in there.trials]
    assert [trial.datetime_start for trial in found.trials[3:]] == [one.datetime_start for one in there.trials[3:]]
    go_on(here, 8, kept=kept_of(go_on(place(None, tmp_path / "shorter"), 2)))  # a shorter one says nothing new
    assert len(found.trials) == 8


def test_two_that_have_parted_are_refused(tmp_path: Path) -> None:
    there = go_on(place(None, tmp_path / "there"), 8, sampler={"kind": "random", "seed": 1})
    here = place(None, tmp_path / "here")
    go_on(here, 3)
    with pytest.raises(InputError, match=r"^search 'sleep': trial 0 differs between the storage and the longer"):
        go_on(here, 8, kept=kept_of(there))
    assert len(go_on(here, 3).trials) == 3


def fresh(search: Search, where: Place) -> optuna.Study:
    """The study of a search, found or created."""
    with held_study(search, IDENTITY, where, steps=1):
        return stored_study(search, IDENTITY, where)


def test_a_status_counts_and_suggests(tmp_path: Path) -> None:
    names = {"validation/accuracy": "maximise", "validation/a_1": "minimise"}
    search = a_search(objectives=names)
    study = fresh(search, place(None, tmp_path))
    for values in ((0.9, 0.5), (0.8, 0.1), (0.88, 0.15)):
        study.tell(study.ask(), values)
    seen = status(study, search)
    assert seen.best[1] == {"validation/accuracy": 0.8, "validation/a_1": 0.1}
    assert seen.suggested == 2
    assert in_words(seen).endswith("; suggested: trial 2")
    assert "3 of 6 trials done" in in_words(seen)
    smaller = a_search(objectives=names, budget={"trials": 2, "hours": None})
    assert "3 trials done, budget 2" in in_words(status(study, smaller))


def test_objectives_in_another_order_are_another_search() -> None:
    """A study keeps their values by place."""
    names = {"validation/accuracy": "maximise", "validation/a_1": "minimise"}
    one, same, other = (
        identity(a_search(objectives=known), fixed={}, overlays={}, inputs={}, code="", plugins={})
        for known in (names, dict(names), dict(reversed(names.items())))
    )
    assert one == same != other


def test_the_time_left_is_that_of_the_budget_that_is_spent_first(tmp_path: Path) -> None:
    where = place(None, tmp_path)
    for trials, hours, left in ((100, None, 99 * 60), (100, 0.5, 29 * 60), (2, 0.5, 60), (1, 0.5, 0)):
        search = a_search(budget={"trials": trials, "hours": hours})
        study = fresh(search, where)
        if not study.trials:
            trial = study.ask()
            trial.set_user_attr(PROVENANCE, {"seconds": 60.0})
            study.tell(trial, 1.0)
        assert status(study, search).eta_seconds == pytest.approx(left)
        assert status(study, search, workers=2).eta_seconds == pytest.approx(left / 2)
    search = a_search(budget={"trials": 100, "hours": None})
    study.ask().set_user_attr(PROVENANCE, {"seconds": 40.0})  # under way
    assert status(study, search).eta_seconds == pytest.approx(99 * 60 - 40)
