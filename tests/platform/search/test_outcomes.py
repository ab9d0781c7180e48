"""Results of a search: fronts by brute force, a knee by hand, importances of functions with known variance."""

import itertools
import math

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import FloatDistribution
from optuna.study import Study
from optuna.trial import TrialState, create_trial

from isoscope.platform.search.outcomes import (
    COLUMNS,
    PROVENANCE,
    feasible,
    front,
    importances,
    knee,
    saved_by_pruning,
)
from search_material import NAMES, STEPS, new, points, searched

WORDS = ("minimize", "maximize")


def of_two(trials: int, *, axis: bool = False) -> Study:
    """x² + 0.1 y with an inert z, of values drawn evenly; with an axis every other trial is y² instead."""
    rng = np.random.default_rng(0)
    study = new(axis="kind" if axis else None)
    wide = FloatDistribution(-3, 3)
    for number in range(trials):
        x, y, z = (float(value) for value in rng.uniform(-3, 3, 3))
        params, given_ = {"x": x, "y": y, "z": z}, dict.fromkeys("xyz", wide)
        if axis:
            params["kind"] = "ab"[number % 2]
            given_["kind"] = optuna.distributions.CategoricalDistribution("ab")
        value = y**2 if number % 2 and axis else x**2 + 0.1 * y
        study.add_trial(create_trial(value=value, params=params, distributions=given_))
    return study


def best(study: Study) -> int | None:
    """Number of the trial that a search suggests."""
    return getattr(knee(front(study), study.directions), "number", None)


def test_the_best_trial_is_feasible_and_complete_and_of_equals_the_first() -> None:
    study = searched(40)
    allowed = [one for one in study.trials if one.state == TrialState.COMPLETE and one.values[0] >= 0.7]
    assert best(study) == max(allowed, key=lambda one: one.values[0]).number
    assert min(one.values[0] for one in study.trials if one.values) < 0.7, "something had to be left out"
    study, trials = points([[9.0], [3.0], [5.0], [5.0]], ["maximize"], infeasible=[0])
    assert [feasible(trial) for trial in trials] == [False, True, True, True]
    assert best(study) == 2
    assert [trial.number for trial in front(study)] == [2, 3]
    assert best(points([[9.0]], ["maximize"], infeasible=[0])[0]) is None
    assert best(new()) is None


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 3).flatmap(
        lambda m: st.tuples(
            st.lists(st.tuples(*[st.integers(0, 5)] * m), max_size=14),
            st.lists(st.sampled_from(WORDS), min_size=m, max_size=m),
            st.sets(st.integers(0, 13), max_size=4),
        )
    )
)
def test_the_front_is_what_nothing_beats(drawn: tuple[list[tuple[int, ...]], list[str], set[int]]) -> None:
    values, directions, barred = drawn
    study, _ = points([[float(one) for one in row] for row in values], directions, infeasible=list(barred))
    sign = [1 if one == "minimize" else -1 for one in directions]
    losses = {k: [s * v for s, v in zip(sign, row, strict=True)] for k, row in enumerate(values) if k not in barred}
    beaten = {
        one
        for one, other in itertools.permutations(losses, 2)
        if losses[one] != losses[other] and all(a >= b for a, b in zip(losses[one], losses[other], strict=True))
    }
    assert [trial.number for trial in front(study)] == sorted(set(losses) - beaten)


@pytest.mark.parametrize(
    "values, number",
    [
        ([(0.9, 0.9), (0.0, 1.0), (1.0, 0.0)], None),
        ([(0.0, 1.0), (1.0, 0.0)], None),
        ([(0.0, 1.0), (0.0, 1.0)], 0),
        ([(0.0, 3.0), (1.0, 2.0), (2.0, 1.0)], None),
        ([(0.0, 3.0), (0.9, 2.0), (2.0, 1.0)], 1),
        ([(0.0, math.inf), (1.0, 5.0), (2.0, 1.0), (1.1, 1.1)], 3),
    ],
    ids=["bends away", "two", "equal", "on the line", "before the line", "inf has no place on a scale"],
)
def test_a_front_suggests_a_trial_only_if_it_stands_out(values: list[tuple[float, float]], number: int | None) -> None:
    assert best(points(values, ["minimize", "minimize"])[0]) == number


def test_the_knee_is_farthest_from_the_line_between_the_ends() -> None:
    """Against the distance from a point to a line by the cross product, on fronts that are convex."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        u = np.sort(rng.uniform(0, 3, 9))
        study, trials = points([(a, math.exp(-a)) for a in u], ["minimize", "minimize"])
        scaled = np.array([trial.values for trial in trials])
        scaled = (scaled - scaled.min(axis=0)) / np.ptp(scaled, axis=0)
        ends = scaled[-1] - scaled[0]
        away = scaled - scaled[0]
        distance = np.abs(ends[0] * away[:, 1] - ends[1] * away[:, 0]) / np.linalg.norm(ends)
        found = knee(front(study), study.directions)
        assert found.number == int(distance.argmax())


def test_what_explains_the_variance_is_found_and_what_is_inert_is_not() -> None:
    table = importances(of_two(80), resamples=8).set_index("parameter")
    assert list(importances(new())) == COLUMNS
    assert set(table["architecture"]) == {"all"}
    assert set(table["objective"]) == {NAMES[0]}
    assert set(table["trials"]) == {80}
    assert table.loc["x", "importance"] > 0.95
    assert table.loc["z", "importance"] < 0.02
    assert (table["low"] < table["high"]).all(), "other trials would have given another forest"
    assert (table["low"] <= table["importance"] + 0.05).all()
    assert table["importance"].sum() <= 1 + 1e-9
    assert table["importance"].between(0, 1).all()


def test_each_architecture_by_itself_and_never_the_axis() -> None:
    table = importances(of_two(104, axis=True), least=50, resamples=2)
    top = table.sort_values("importance").groupby("architecture")["parameter"].last()
    assert top.to_dict() == {"a": "x", "b": "y"}
    assert set(table["trials"]) == {52}
    assert set(table["parameter"]) == set("xyz"), "the axis is constant within an architecture"


def test_fewer_than_fifty_say_nothing() -> None:
    assert importances(of_two(49), resamples=2).empty
    assert len(importances(of_two(50), resamples=2)) == 3
    assert importances(of_two(98, axis=True), resamples=2).empty


def test_a_constant_objective_or_parameter_has_no_importance() -> None:
    study = new(axis=None)
    for number in range(60):
        spread = {"x": FloatDistribution(0, 60), "y": FloatDistribution(1, 1)}
        params = {"x": float(number), "y": 1.0}
        study.add_trial(create_trial(value=0.5, params=params, distributions=spread))
    assert importances(study, resamples=2).empty
    study.add_trial(create_trial(value=0.9, params={"x": 60.0, "y": 1.0}, distributions=spread))
    table = importances(study, resamples=10)
    assert table["parameter"].tolist() == ["x"]
    assert np.isfinite(table["importance"]).all()


def test_a_condition_is_left_out_and_the_rest_stays() -> None:
    table = importances(searched(60, axis=None), least=20, resamples=2)
    found = {"training.learning_rate", "training.dropout", "fusion", "penalty"}
    assert set(table["parameter"]) == found, "what only some trials have is no parameter of all"


def test_equal_studies_have_equal_importances_and_another_seed_others() -> None:
    one, other, third = (importances(of_two(50), resamples=3, seed=seed) for seed in (0, 0, 1))
    assert one.equals(other)
    assert not one.equals(third)


def test_steps_saved_are_counted() -> None:
    study = searched(40)
    states = [trial.state for trial in study.trials]
    pruned, full = states.count(TrialState.PRUNED), states.count(TrialState.COMPLETE)
    assert pruned > 3
    found = saved_by_pruning(study)
    assert found.pruned == pruned
    assert found.full == STEPS * (pruned + full)
    assert found.run == STEPS * full + 2 * pruned
    assert found.share == pytest.approx(2 * pruned / found.full)
    assert saved_by_pruning(new()) == (0, 0, 0.0, 0)
    several = saved_by_pruning(searched(20, 2))
    assert several.share == 0
    assert several.run == several.full > 0


def test_a_short_trial_that_ran_whole_has_saved_nothing() -> None:
    """Where the number of epochs is searched: a whole trial of two, and half a trial of four."""
    study = new()
    for state, steps in ((TrialState.COMPLETE, 2), (TrialState.PRUNED, 4)):
        facts, value = {PROVENANCE: {"steps": steps, "epochs": 2}}, 0.5 if state == TrialState.COMPLETE else None
        study.add_trial(create_trial(state=state, value=value, user_attrs=facts))
    assert saved_by_pruning(study) == (4, 6, pytest.approx(1 / 3), 1)
