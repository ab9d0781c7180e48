"""Proposals (quasi-random proposals cover every name evenly), pruning, and trials that fail."""

import collections
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial

from isoscope.base.errors import InputError
from isoscope.platform.config.searching import corners
from isoscope.platform.executor.child import CANCELLED, CRASHED, CROWDED, DONE, STOPPED, Ending
from isoscope.platform.executor.execute import TRIES
from isoscope.platform.search import space, under_way
from isoscope.platform.search.driver import Driver
from isoscope.platform.search.outcomes import saved_by_pruning
from isoscope.platform.search.space import combinations, point, sampler, value_at, wanted
from isoscope.platform.search.status import status
from isoscope.platform.search.storage import place
from isoscope.platform.search.study import BASE, differences, forget, held_study, identity, stored_study
from isoscope.platform.search.trials_table import reported
from isoscope.platform.search.under_way import UnderWay
from search_under_way import begin, ended, trials_of
from search_work import FINITE, IDENTITY, SAMPLERS, SPACE, a_driver, a_search, driven, never

STATES = optuna.trial.TrialState


def tried(folder: Path, changed: dict[str, object], *, budgets: tuple[int, ...]) -> list[dict[str, object]]:
    """Return the parameters of trials after sessions with successive budgets, each with a newly opened study."""
    for budget in budgets:
        search = a_search(**changed, budget={"trials": budget, "hours": None})
        with driven(search, place(None, folder)) as (one, ask):
            while trial := ask():
                one.study.tell(trial, trial.params["penalty.weight"])
    return [trial.params for trial in trials_of(folder)]


@pytest.mark.parametrize("kind", SAMPLERS)
def test_twenty_trials_are_five_and_then_fifteen(kind: str, tmp_path: Path) -> None:
    """A proposal depends only on the seed and on the history."""
    changed = {"sampler": {"kind": kind, "seed": 3, **SAMPLERS[kind]}}
    if kind == "grid":
        changed["space"] = FINITE
    whole = tried(tmp_path / "whole", changed, budgets=(20,))
    assert tried(tmp_path / "parted", changed, budgets=(5, 20)) == whole
    changed["sampler"]["seed"] = 4
    assert tried(tmp_path / "other", changed, budgets=(20,)) != whole
    if kind == "grid":
        assert len({json.dumps(one, sort_keys=True) for one in whole}) == 20


def test_a_grid_is_tried_whole_and_no_choice_twice(tmp_path: Path) -> None:
    """Also while no trial has ended yet."""
    search = a_search(sampler={"kind": "grid", "seed": 3}, space=FINITE, budget={"trials": 100, "hours": None})
    assert combinations(search) == (1 + 9) * 3
    with driven(search, place(None, tmp_path)) as (one, ask):
        trials = [trial for _ in range(30) if (trial := ask())]
        assert [trial.number for trial in trials] == list(range(30))
        assert len({json.dumps(trial.params, sort_keys=True) for trial in trials}) == 30
        assert ask() is None
        assert not status(one.study, search).done
        for trial in trials:
            one.study.tell(trial, state=STATES.FAIL)
        assert ask() is None
        assert status(one.study, search).done
        assert not status(one.study, a_search(budget={"trials": 100, "hours": None})).done


def test_of_a_grid_those_are_tried_that_stand_on_it(tmp_path: Path) -> None:
    """Another sampler rounds otherwise; who changes to a grid gets the rest of it, and of a part nothing is known."""
    space = {"penalty.weight": {"low": 0.1, "high": 1.0, "step": 0.1}}
    begun = tried(tmp_path, {"space": space}, budgets=(8,))
    assert any(one["penalty.weight"] != round(one["penalty.weight"], 9) for one in begun), "as 0.30000000000000004"
    grid = {"kind": "grid", "seed": 0}
    found = tried(tmp_path, {"space": space, "sampler": grid}, budgets=(60,))
    whole = [round(one["penalty.weight"], 9) for one in found]
    assert set(whole) == {round(0.1 * step, 9) for step in range(1, 11)}
    assert len(whole) < 60
    search = a_search(space=FINITE, sampler=grid, budget={"trials": 100, "hours": None})
    assert wanted(search) == 30
    assert point(search, {"fusion": "conv2d", "penalty.weight": 0.5}) is None
    assert point(search, {"fusion": "conv2d", "model.fusion.width": 3, "penalty.weight": 0.5}) == ("conv2d", 2, 1)


def test_a_dead_parameter_is_never_drawn_and_none_that_lives_is_left_out() -> None:
    search = a_search()
    study = optuna.create_study(sampler=sampler(search, 0))
    drawn = []
    for number in range(60):
        study.sampler = sampler(search, number)
        trial = study.ask()
        chosen = space.suggest(search, trial)
        drawn.append(chosen)
        assert ("model.fusion.width" in chosen) == (chosen["fusion"] == "conv2d")
        assert space.chosen(search, trial.params) == chosen
        study.tell(trial, chosen["penalty.weight"])
    assert len({chosen["fusion"] for chosen in drawn}) == 2


def test_corners_meet_every_choice_and_bound_under_every_condition() -> None:
    found = list(corners(a_search()))
    assert {one["fusion"] for one in found} == {"additive", "conv2d"}
    assert {one.get("model.fusion.width") for one in found} == {None, 1, 9}
    assert {one["penalty.weight"] for one in found if one["fusion"] == "additive"} == {0.1, 100.0}


COUNT = 64


def proposed(seed: int, count: int = COUNT) -> list[dict[str, object]]:
    """Return the draws of trials, each in a study without history."""
    search, found = a_search(sampler={"kind": "qmc", "seed": seed}), []
    for number in range(count):
        trial = optuna.create_study(sampler=sampler(search, number)).ask()
        found.append(space.suggest(search, trial))
    return found


def test_a_proposal_needs_no_history() -> None:
    assert proposed(3) == proposed(3, 2 * COUNT)[:COUNT]
    assert proposed(3) != proposed(4)


def test_every_name_is_covered_evenly() -> None:
    """Of 64 points each sixteenth of a coordinate has four; random points would have none or many."""
    found = proposed(3)
    assert collections.Counter(one["fusion"] for one in found) == {"additive": 32, "conv2d": 32}
    low, high = math.log(0.1), math.log(100)
    shares = [(math.log(one["penalty.weight"]) - low) / (high - low) for one in found]
    assert set(collections.Counter(int(16 * share) for share in shares).values()) == {4}
    widths = collections.Counter(one["model.fusion.width"] for one in found if "model.fusion.width" in one)
    assert set(widths) == set(range(1, 10))
    assert max(widths.values()) <= 5


@pytest.mark.parametrize(
    "distribution, expected",
    [
        (CategoricalDistribution(["a", "b", "c"]), ["a", "a", "b", "c", "c"]),
        (IntDistribution(1, 3), [1, 1, 2, 3, 3]),
        (IntDistribution(1, 9, step=4), [1, 1, 5, 9, 9]),
        (IntDistribution(1, 100, log=True), [1, 2, 7, 27, 100]),
        (FloatDistribution(0.0, 4.0), [0.0, 1.0, 2.0, 3.0, 4.0]),
        (FloatDistribution(0.0, 1.0, step=0.5), [0.0, 0.0, 0.5, 1.0, 1.0]),
        (FloatDistribution(0.01, 100.0, log=True), [0.01, 0.1, 1.0, 10.0, 100.0]),
    ],
)
def test_shares_are_values(distribution: BaseDistribution, expected: list[object]) -> None:
    found = [value_at(distribution, share) for share in (0.0, 0.25, 0.5, 0.75, 1 - 2**-53)]
    assert found == (expected if isinstance(expected[0], str) else pytest.approx(expected))
    assert all(type(one) is type(expected[0]) for one in found)


HEAVY, NAN = "ValueError: too heavy to run", "validation/accuracy is nan"


@pytest.mark.parametrize(
    "broken, retries, error, shown",
    [("run", 0, HEAVY, "Traceback"), ("run", 2, HEAVY, "Traceback"), ("nan", 0, NAN, NAN)],
)
def test_a_trial_that_crashes_or_gives_no_number_fails_alone_and_is_shown(
    tmp_path: Path, broken: str, retries: int, error: str, shown: str
) -> None:
    said = ended(begin(tmp_path, trials=12, seconds=0, broken=broken, changed={"retries": retries}))
    trials = trials_of(tmp_path)
    heavy = [trial for trial in trials if trial.params["penalty.weight"] > 10]
    assert heavy
    assert [trial for trial in trials if trial.state == STATES.FAIL] == heavy
    assert all(error in trial.user_attrs["error"] for trial in heavy)
    assert said.count(shown) == len(heavy)
    assert said.count("; run again") == retries * len(heavy)


def test_a_trial_is_not_to_blame_for_other_data(tmp_path: Path) -> None:
    """It stays under way, and is taken up again when the data are back."""
    changed: list[str] = []

    def plan(chosen: Mapping[str, Any]) -> Sequence[Any]:
        if changed:
            raise InputError("data/processed/t: has changed since this search began")
        return never(chosen)

    with held_study(a_search(), IDENTITY, place(None, tmp_path), steps=1) as one:
        driver = a_driver(one, plan)
        for number in range(2):
            fresh = driver._claimed()
            assert fresh is not None
            driver.trials[fresh.title] = fresh
            changed[:] = ["yes"][number:]
            with pytest.raises(InputError, match="has changed" if changed else "no such column"):
                driver._fail(fresh, "no such column", wrong=True)
            assert fresh.trial.number == 0
            driver.trials.clear()
            changed.clear()
            assert trials_of(tmp_path)[0].state == (STATES.FAIL if number else STATES.RUNNING)


def test_a_cancelled_job_is_repeated_a_few_times_and_uses_up_no_retry(tmp_path: Path) -> None:
    one = UnderWay(a_search(), None, never({}), {})
    assert [one.again(Ending(CANCELLED, "cancelled")) for _ in range(TRIES + 1)] == [*[True] * TRIES, False]
    assert not one.again(Ending(CRASHED, "no retries"))


def test_the_wait_in_a_queue_is_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(under_way, "time", SimpleNamespace(monotonic=lambda: now[0]))
    one = UnderWay(a_search(), None, never({}), {})
    for at, at_work in ((0, False), (1000, False), (1001, True), (1011, True), (1021, False), (5000, False)):
        now[0] = at
        one.clock(at_work=at_work)
    assert one.provenance["seconds"] == 20
    one.clock(at_work=True)
    now[0] += 5
    assert one.provenance["seconds"] == 25


def test_an_objective_that_is_never_logged_ends_the_search_at_once(tmp_path: Path) -> None:
    said = ended(begin(tmp_path, seconds=0, broken="unlogged"), code=2)
    assert "no run logs 'validation/accuracy'; did you mean 'validation/accuracies'?" in said
    assert "Traceback" not in said
    assert [trial.state for trial in trials_of(tmp_path)] == [STATES.FAIL]


@pytest.mark.parametrize("kind", ["median", "hyperband"])
def test_hopeless_trials_are_ended_early(kind: str, tmp_path: Path) -> None:
    options = {"median": {"startup": 3, "warmup": 0}, "hyperband": {"reduction": 2}}[kind]
    changed = {"pruner": {"kind": kind, **options}, "sampler": {"kind": "random", "seed": 0}}
    ended(begin(tmp_path, trials=12, seconds=0.4, steps=6, changed=changed))
    counts = collections.Counter(trial.state for trial in trials_of(tmp_path))
    assert counts[STATES.PRUNED] > 1
    assert counts[STATES.COMPLETE] > 1
    assert counts[STATES.PRUNED] + counts[STATES.COMPLETE] == 12
    for trial in trials_of(tmp_path):
        assert (len(trial.intermediate_values) == 6) == (trial.state == STATES.COMPLETE)
        if trial.state == STATES.COMPLETE:
            assert trial.value == pytest.approx(trial.intermediate_values[6])


class Curve:
    """A run that is not carried out: its epochs are there one by one, as the test lets them."""

    arguments, steps = (), 4

    def __init__(self, values: Sequence[float]) -> None:
        self.values, self.seen, self.digest = values, 0, f"run of {values}"

    def do(self, shown: object) -> str:
        raise AssertionError("no process is started here")

    def done(self) -> bool:
        return False

    def reports(self) -> list[tuple[int, float]]:
        return [*enumerate(self.values[: self.seen], start=1)]

    def metrics(self) -> dict[str, float]:
        return {"validation/accuracy": self.values[-1]}


def worked_off(driver: Driver, curves: Sequence[Curve]) -> FrozenTrial:
    """Let a driver's next trial report epoch after epoch, until it is pruned or complete; return it."""
    driver.plan = lambda chosen: curves
    one = driver._claimed()
    assert one is not None
    driver.trials[one.title] = one
    while one.title in driver.trials:
        one.job.seen += 1
        if one.job.seen < one.job.steps:
            one.pruned = one.hopeless()
        if one.pruned or one.job.seen == one.job.steps:
            driver._ended(one, Ending(STOPPED if one.pruned else DONE, ""))
    return driver.one.study.trials[one.trial.number]


def seeds_of(*levels: float) -> list[Curve]:
    """Runs of a trial, a seed each, that end at these values."""
    return [Curve([level * (epoch + 1) / 4 for epoch in range(4)]) for level in levels]


def test_wilcoxon_ends_what_is_worse_over_seeds_and_counts_the_epochs_that_ran(tmp_path: Path) -> None:
    pruner = {"kind": "wilcoxon", "p": 0.2, "startup": 3}
    search = a_search(pruner=pruner, seeds=[0, 1, 2, 3, 4, 5], sampler={"kind": "random", "seed": 0})
    with held_study(search, IDENTITY, place(None, tmp_path), steps=24) as one:
        driver = a_driver(one)
        driver._start = lambda trial: None  # type: ignore[method-assign]
        best = worked_off(driver, seeds_of(0.9, 0.91, 0.92, 0.93, 0.94, 0.95))
        better = worked_off(driver, seeds_of(0.91, 0.92, 0.93, 0.94, 0.95, 0.96))
        worse = worked_off(driver, seeds_of(0.5, 0.52, 0.54, 0.56, 0.58, 0.6))
        assert [trial.state for trial in (best, better, worse)] == [STATES.COMPLETE, STATES.COMPLETE, STATES.PRUNED]
        assert [*best.intermediate_values] == [1, 2, 3, 4, 5, 6]
        assert [*worse.intermediate_values] == [1, 2, 3], "p of three pairs is .125"
        assert saved_by_pruning(one.study) == (24 + 24 + 12, 72, pytest.approx(12 / 72), 1)
        assert reported(one.study).groupby("number")["step"].max().tolist() == [6, 6, 3]


def test_a_pruner_that_can_prune_nothing_is_refused() -> None:
    """Of five seeds at most four pairs are tested: p is at least .0625."""
    with pytest.raises(ValueError, match=r"p 0\.05 prunes nothing: of 5 seeds the least possible p is 0\.0625"):
        a_search(pruner={"kind": "wilcoxon", "p": 0.05, "startup": 2}, seeds=[0, 1, 2, 3, 4])
    a_search(pruner={"kind": "wilcoxon", "p": 0.05, "startup": 2}, seeds=[0, 1, 2, 3, 4, 5])


def test_trials_that_report_by_seed_and_by_epoch_are_of_two_studies() -> None:
    """Optuna compares what trials report at a step; these would be an epoch of one and a seed of another."""
    kinds: list[dict[str, object]] = [
        {"kind": "none"},
        {"kind": "median", "startup": 1, "warmup": 0},
        {"kind": "hyperband", "reduction": 2},
        {"kind": "wilcoxon", "p": 0.1, "startup": 2},
    ]
    known: dict[str, Any] = {"fixed": {}, "overlays": {}, "inputs": {}, "code": "", "plugins": {}}
    found = [identity(a_search(pruner=kind, seeds=[0, 1, 2, 3, 4, 5]), **known) for kind in kinds]
    assert found[0] == found[1] == found[2] != found[3]
    assert differences(found[0], found[3]) == "pruner reports absent → by seed"


def test_a_trial_that_waits_for_room_on_a_card_can_be_pruned(tmp_path: Path) -> None:
    """It has no process that could be stopped, and is never started again."""
    pruner = {"kind": "median", "startup": 1, "warmup": 0}
    search = a_search(pruner=pruner, sampler={"kind": "random", "seed": 0}, budget={"trials": 2, "hours": None})
    with held_study(search, IDENTITY, place(None, tmp_path), steps=4) as one:
        driver = a_driver(one)
        driver._start = lambda trial: None  # type: ignore[method-assign]
        worked_off(driver, seeds_of(0.9))
        driver.plan = lambda chosen: seeds_of(0.1)
        waiting = driver._claimed()
        assert waiting is not None
        driver.trials[waiting.title] = waiting
        driver._ended(waiting, Ending(CROWDED, "no memory"))
        assert driver.crowded == [waiting]
        waiting.job.seen = 2  # read from its record after its end
        driver.pool = SimpleNamespace(  # type: ignore[assignment]
            takes=lambda workers: False, ended=list, at_work=lambda title: False
        )
        driver._drive(iter(()))
        assert driver.crowded == []
        assert one.study.trials[1].state == STATES.PRUNED
        assert one.study.trials[1].user_attrs["provenance"]["epochs"] == 1


def test_an_empty_study_that_a_kill_has_left_is_named_with_what_to_do(tmp_path: Path) -> None:
    where = place(None, tmp_path)
    with held_study(a_search(), IDENTITY | {"seeds": [1]}, where, steps=1) as one:
        optuna.delete_study(study_name="sleep", storage=one.storage)
        optuna.create_study(study_name="sleep", storage=one.storage)
    with (
        pytest.raises(InputError, match=r"another program; choose another name; if a killed isoscope left it"),
        held_study(a_search(), IDENTITY, where, steps=1),
    ):
        pass


def test_another_search_under_the_same_name_is_refused_with_the_difference(tmp_path: Path) -> None:
    """By every command alike."""
    search, where = a_search(), place(None, tmp_path)
    other = IDENTITY | {"seeds": [1]}

    def name(identity: dict[str, object], *, fork: bool = False) -> str:
        with held_study(search, identity, where, steps=1, fork=fork) as one:
            return one.study.study_name

    with pytest.raises(InputError, match="no such study"):
        stored_study(search, IDENTITY, where)
    assert name(IDENTITY) == "sleep"
    said = r"has other settings: seeds absent → \[1\]; restore them, or create a new study: isoscope search run --fork$"
    for use in (name, lambda identity: stored_study(search, identity, where)):
        with pytest.raises(InputError, match=said):
            use(other)
    assert name(other, fork=True) == "sleep-2"
    assert [name(IDENTITY), name(other)] == ["sleep", "sleep-2"]
    assert [stored_study(search, one, where).study_name for one in (IDENTITY, other)] == ["sleep", "sleep-2"]


def test_a_space_that_has_grown_keeps_the_trials_inside(tmp_path: Path) -> None:
    """A trial stays if its choices lie in the new space and give the runs that it names."""
    small = {**SPACE, "fusion": {"choices": ["conv2d"]}, "penalty.weight": {"low": 0.1, "high": 1.0}}
    large = {**SPACE, "model.fusion.width": {"low": 3, "high": 12, "when": {"fusion": ["conv2d"]}}}
    where, old = place(None, tmp_path), IDENTITY | {"space": small, "overlays": {"a.yaml": {}}}
    search = a_search(space=small, sampler={"kind": "random", "seed": 0})
    with driven(search, where, identity=old) as (one, ask):
        for number in range(6):
            trial = ask()
            trial.report(0.5, 1)
            one.study.tell(trial, *((None, STATES.FAIL) if number == 3 else (number / 10, None)))
        before = one.study.trials
        one.study.set_user_attr(BASE, {"validation/accuracy": 0.5})
    new = IDENTITY | {"space": large, "overlays": {"a.yaml": {}, "b.yaml": {}}, "code": "another none"}
    search = a_search(
        space=large, sampler={"kind": "tpe", "seed": 0, "startup": 1}, budget={"trials": 9, "hours": None}
    )
    with pytest.raises(InputError, match=r"--fork, which keeps the trials that lie in the new space$"):
        stored_study(search, new, where)
    with driven(search, where, identity=new, fork=True, fits=lambda trial: trial.number != 1) as (one, ask):
        kept = [trial for trial in before if trial.params["model.fusion.width"] >= 3 and trial.number != 1]
        assert 0 < len(kept) < 5
        found = one.study.trials
        for name in ("params", "values", "state", "datetime_start", "intermediate_values", "user_attrs"):
            assert [getattr(trial, name) for trial in found] == [getattr(trial, name) for trial in kept]
        assert one.study.user_attrs[BASE] == {"validation/accuracy": 0.5}
        while trial := ask():
            one.study.tell(trial, 0.1)
        assert len(one.study.trials) == 9
    other = new | {"seeds": [1]}
    with held_study(search, other, where, steps=1, fork=True, fits=lambda trial: True) as held:
        assert held.study.trials == []


def test_only_a_study_that_nothing_came_of_is_forgotten(tmp_path: Path) -> None:
    search, where = a_search(), place(None, tmp_path)
    for result in (None, BASE, 1.0):
        with held_study(search, IDENTITY, where, steps=1) as one:
            one.study.tell(one.study.ask(), state=STATES.FAIL)
            trial = one.study.ask()  # running
            if result == BASE:
                one.study.set_user_attr(BASE, {"validation/loss": 1.0})
            elif result:
                one.study.tell(trial, result)
            forget(one)
            assert (one.study.study_name in optuna.get_all_study_names(one.storage)) == bool(result)
            if result == BASE:
                optuna.delete_study(study_name="sleep", storage=one.storage)


@pytest.mark.parametrize("name", ["my%20files", "who?", "a%41{b}"])
def test_a_search_is_stored_in_its_project_whatever_the_folder_is_called(name: str, tmp_path: Path) -> None:
    where = place(None, tmp_path / name)
    with driven(a_search(), where) as (one, ask):
        one.study.tell(ask(), 1.0)
    assert {file.name for file in tmp_path.iterdir()} == {name}
    assert (tmp_path / name / "studies.db").is_file()
    assert len(trials_of(tmp_path / name, where.url.render_as_string())) == 1


@pytest.mark.parametrize(
    "url, said",
    [
        (f"sqlite:///{Path(__file__)}", "not a SQLite database"),
        (f"sqlite:///{Path(__file__).parent}", "not a SQLite database"),
        ("nonsense", "expected sqlite:///FILE or postgresql://"),
        ("mysql://u@h/d", "expected sqlite:///FILE or postgresql://"),
        ("sqlite:////no/such/folder/a.db", "no folder /no/such/folder"),
        ("postgresql://u:secret@127.0.0.1:1/d", "cannot be opened"),
    ],
)
def test_a_wrong_storage_is_named_without_its_password(url: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said) as raised:
        stored_study(a_search(), IDENTITY, place(url, tmp_path))
    assert "secret" not in str(raised.value)
