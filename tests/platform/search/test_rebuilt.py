"""The table of trials, and a study rebuilt from it, as in a fresh clone, or behind it."""

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from isoscope.base.errors import InputError
from isoscope.base.parquet import write_parquet
from isoscope.platform.config.searching import Search
from isoscope.platform.search.outcomes import PROVENANCE, front
from isoscope.platform.search.status import in_words, status
from isoscope.platform.search.storage import Place, place
from isoscope.platform.search.study import held_study, identity, stored_study
from isoscope.platform.search.trials_table import StoredTrials, rebuilt, trials_table
from search_material import NAMES, new, points, searched
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


def test_choices_that_wait_are_kept_twice_and_of_another_program_too(tmp_path: Path) -> None:
    before = go_on(place(None, tmp_path / "before"), 6, left=2)
    between = place(None, tmp_path / "between")
    with held_study(a_search(), IDENTITY, between, steps=1, kept=lambda: kept_of(before)) as one:
        assert [trial.state for trial in one.study.trials[4:]] == [STATES.WAITING] * 2
        waiting = kept_of(one.study)
    after = go_on(place(None, tmp_path / "after"), 6, kept=waiting)
    assert [trial.params for trial in after.trials] == [trial.params for trial in before.trials]
    queued = {"fusion": "conv2d", "model.fusion.width": 3, "penalty.weight": 2.5}
    study = go_on(place(None, tmp_path / "queued"), 1)
    study.enqueue_trial(queued)
    assert go_on(place(None, tmp_path / "other"), 2, kept=kept_of(study)).trials[1].params == queued


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


ANY_STATE = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL, TrialState.RUNNING, TrialState.WAITING)
FLOATS = st.floats(allow_nan=False)
ANY_FLOATS = st.floats()
SPACE: dict[str, tuple[BaseDistribution, st.SearchStrategy[Any]]] = {
    "training.learning_rate": (FloatDistribution(1e-7, 1.0, log=True), st.floats(1e-7, 1.0)),
    "stepped": (FloatDistribution(0, 1, step=0.25), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])),
    "model.fusion.modes": (IntDistribution(1, 64, log=True), st.integers(1, 64)),
    "fusion": (CategoricalDistribution(("additive", "conv2d", "fft")), st.sampled_from(["additive", "conv2d", "fft"])),
    "model.fusion.kernel_size": (CategoricalDistribution(("[3]", "[3, 5]")), st.sampled_from(["[3]", "[3, 5]"])),
    "mixed": (CategoricalDistribution((None, True, 2, 0.5, "x")), st.sampled_from([None, True, 2, 0.5, "x"])),
}
JSON = st.recursive(st.none() | st.booleans() | st.integers() | ANY_FLOATS | st.text(), st.lists, max_leaves=4)


@st.composite
def trials(draw: st.DrawFn, number: int) -> FrozenTrial:
    """Any trial that Optuna accepts: every state, any part of the space, NaN and infinite values."""
    state = draw(st.sampled_from(ANY_STATE))
    names = draw(st.sets(st.sampled_from(sorted(SPACE))))
    moments = st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1)).map(lambda one: one.replace(fold=0))
    started = None if state == TrialState.WAITING else draw(moments)
    values = [draw(FLOATS)] if state == TrialState.COMPLETE else None
    if state == TrialState.PRUNED:
        values = draw(st.none() | FLOATS.map(lambda one: [one]))
    attributes = draw(st.dictionaries(st.text().map("own {}".format), JSON, max_size=3))
    known = {"digests": st.lists(st.text(max_size=4), max_size=2), "seconds": st.floats(0, 1e9)}
    attributes |= draw(st.fixed_dictionaries({}, optional={PROVENANCE: st.fixed_dictionaries({}, optional=known)}))
    constraints = draw(st.dictionaries(st.sampled_from(["a", "b c"]), FLOATS))
    return FrozenTrial(
        number=number,
        trial_id=number,
        state=state,
        value=None,
        values=values,
        datetime_start=started,
        datetime_complete=started + timedelta(seconds=3) if started and state.is_finished() else None,
        params={name: draw(SPACE[name][1]) for name in sorted(names)},
        distributions={name: SPACE[name][0] for name in sorted(names)},
        intermediate_values=draw(st.dictionaries(st.integers(0, 99), ANY_FLOATS, max_size=4)),
        user_attrs=attributes,
        system_attrs={f"constraints:{name}": value for name, value in constraints.items()},
    )


def same(one: FrozenTrial, other: FrozenTrial) -> bool:
    """Equal in everything, where NaN is equal to NaN, 1 is not 1.0 and 0.0 is not −0.0."""
    return repr(sorted(vars(one).items())) == repr(sorted(vars(other).items()))


def again(table: pd.DataFrame) -> Study:
    """A new study with the trials of a table."""
    study = optuna.create_study()
    study.add_trials(rebuilt(table))
    return study


def through(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    write_parquet(table, path)
    return pd.read_parquet(path)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 5).flatmap(lambda n: st.tuples(*[trials(number) for number in range(n)])))
def test_any_trials_come_back_through_parquet(tmp_path_factory: pytest.TempPathFactory, drawn: Any) -> None:
    study = new()
    for trial in drawn:
        study.add_trial(trial)
    read = through(trials_table(study), tmp_path_factory.mktemp("trials") / "trials.parquet")
    assert len(study.trials) == len(drawn)
    shuffled = again(read.sample(frac=1, random_state=0))
    assert all(same(one, other) for one, other in zip(shuffled.trials, study.trials, strict=True)), "rows in any order"


def test_the_columns_say_what_the_trials_are() -> None:
    study = searched(40, 2)
    table = trials_table(study)
    assert table["number"].tolist() == list(range(40))
    kinds = table.dtypes.astype(str)
    assert kinds["param/training.learning_rate"] == "float64"
    assert kinds["param/model.fusion.modes"] == "Int64"
    assert kinds["started"] == kinds["ended"] == "timestamp[us, tz=UTC][pyarrow]"
    best = {trial.number for trial in front(study)}
    for trial, row in zip(study.trials, table.to_dict("records"), strict=True):
        assert row["state"] == trial.state.name
        assert row["digests"] == trial.user_attrs[PROVENANCE]["digests"]
        assert row["seconds"] == trial.user_attrs[PROVENANCE]["seconds"]
        known = trial.state == TrialState.COMPLETE
        assert row["feasible"] == ((not any(one > 0 for one in trial.constraints.values())) if known else None)
        assert row["on_front"] == (trial.number in best)
        for name in ("fusion", "model.fusion.kernel_size", "training.dropout", "model.fusion.modes"):
            found = row[f"param/{name}"]
            assert pd.isna(found) if name not in trial.params else found == trial.params[name]
        assert row["param/penalty"] in ("0", "1"), "a choice is text"
        values = [row[f"objective/{name}"] for name in NAMES[:2]]
        assert values == trial.values if trial.values else all(map(math.isnan, values))
        if trial.constraints:
            assert row["constraint/validation/accuracy"] == trial.constraints["validation/accuracy"]
        else:
            assert math.isnan(row["constraint/validation/accuracy"])


@pytest.mark.parametrize("count", [0, 1])
def test_types_do_not_depend_on_what_is_in_the_table(tmp_path: Path, count: int) -> None:
    def types(study: Study, name: str) -> dict[str, str]:
        write_parquet(trials_table(study), tmp_path / name)
        return {field.name: str(field.type) for field in pq.read_schema(tmp_path / name)}

    whole, part = types(searched(40), "whole"), types(searched(count), "part")
    assert part == {name: kind for name, kind in whole.items() if name in part}
    assert part["digests"] == whole["digests"] == "list<element: string>"


def test_times_are_universal_and_without_a_note_the_clock_counts() -> None:
    known = points([[1.0]], ["minimize"])[1][0]
    known.datetime_start = local = datetime(2026, 1, 2, 3, 4, 5, 678901)
    known.datetime_complete = local + timedelta(seconds=2.5)
    study = optuna.create_study()
    study.add_trial(known)
    row = trials_table(study).iloc[0]
    assert (row["seconds"], row["ended"] - row["started"]) == (2.5, timedelta(seconds=2.5))
    assert row["started"].to_pydatetime() == local.astimezone(UTC)
