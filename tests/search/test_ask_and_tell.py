"""Trials are what Optuna's own ask and tell make them, and never half there."""

import contextlib
from pathlib import Path

import optuna
import pytest

from isoscope.search import space
from isoscope.search.ask_and_tell import ask, tell
from isoscope.search.samplers import pruner, sampler
from isoscope.search.storage import place, visited
from search_work import FINITE, SAMPLERS, a_search

STATES = optuna.trial.TrialState


def drawn(folder: Path, kind: str, pruned: dict[str, object], *, ours: bool) -> list[tuple[object, ...]]:
    """What sixteen trials are: of every five one goes on running, one is pruned and one fails; half are infeasible."""
    changed = {"sampler": {"kind": kind, "seed": 3, **SAMPLERS[kind]}, "pruner": pruned}
    search = a_search(**changed, **({"space": FINITE} if kind == "grid" else {}))
    with visited(place(None, folder)) as storage:
        optuna.create_study(storage=storage, study_name="other").ask()  # so that a trial's identity is not its number
        study = optuna.create_study(storage=storage, study_name="one", pruner=pruner(search, 9))
        for number in range(16):
            study.sampler = sampler(search, number)
            if ours:
                trial = ask(study, search, number, study.get_trials(deepcopy=False), {})
            else:
                space.suggest(search, trial := study.ask())
            weight = trial.params["penalty.weight"]
            trial.set_constraint("light", weight - (0.25 if kind == "grid" else 3.0))
            for step in range(1, 3 if number != 3 else 1):
                trial.report(weight / step if number != 6 else float("nan"), step)
                trial.should_prune()
            state = (None, STATES.PRUNED, STATES.FAIL, STATES.COMPLETE, STATES.COMPLETE)[(number - 5) % 5]
            values = [weight] if state == STATES.COMPLETE else None
            if state is not None and ours:
                tell(study, trial, state, values)
            elif state is not None:
                with contextlib.suppress(RuntimeError):  # of a grid that asks for an end
                    study.tell(trial, values, state)
        assert len(getattr(study.pruner, "_pruners", [])) == (0 if pruned["kind"] == "none" else 3)
        return [
            # What was told as text, in which NaN is NaN.
            (str((one.state, one.values, one.intermediate_values)), one.params, one.distributions, one.system_attrs)
            for one in study.trials
        ]


@pytest.mark.parametrize("pruned", [{"kind": "none"}, {"kind": "hyperband", "reduction": 3}], ids=["whole", "brackets"])
@pytest.mark.parametrize("kind", SAMPLERS)
def test_a_study_is_what_optunas_own_ask_and_tell_make_it(kind: str, pruned: dict[str, object], tmp_path: Path) -> None:
    ours = drawn(tmp_path / "ours", kind, pruned, ours=True)
    assert ours == drawn(tmp_path / "optuna's", kind, pruned, ours=False)
    assert len({str(params) for _, params, *_ in ours}) > 10
    told = " ".join(one for one, *_ in ours)
    assert all(repr(state) in told for state in STATES if state != STATES.WAITING)
    assert "nan" in told


def test_a_trial_that_has_ended_is_not_told_again() -> None:
    search = a_search()
    study = optuna.create_study(sampler=sampler(search, 0))
    trial = ask(study, search, 0, [], {})
    tell(study, trial, STATES.COMPLETE, [1.0])
    with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
        tell(study, trial, STATES.COMPLETE, [2.0])
    assert study.trials[0].values == [1.0]


def test_one_that_cannot_be_drawn_whole_is_not_there() -> None:
    class Dies(optuna.samplers.RandomSampler):
        def sample_independent(self, study, trial, name, distribution):
            if name == "penalty.weight":
                raise KeyboardInterrupt
            return super().sample_independent(study, trial, name, distribution)

    search = a_search()
    study = optuna.create_study(sampler=Dies(0))
    with pytest.raises(KeyboardInterrupt):
        ask(study, search, 0, [], {})
    assert study.trials == []
    with pytest.raises(KeyboardInterrupt):  # Optuna's own leaves what it has
        space.suggest(search, study.ask())
    assert [(trial.state, list(trial.params)) for trial in study.trials] == [(STATES.RUNNING, ["fusion"])]
    study.sampler = sampler(search, 1)
    whole = ask(study, search, 1, study.trials, {"seed": 0})
    (_, known) = study.trials
    assert known.number == whole.number == 1
    assert known._trial_id == whole._trial_id
    assert known.user_attrs == {"seed": 0}
    assert known.state == STATES.RUNNING
    assert known.params == whole.params
    assert "penalty.weight" in known.params


def test_the_number_is_the_studys_where_another_program_has_added_a_trial() -> None:
    search = a_search()
    study = optuna.create_study(sampler=sampler(search, 0))
    history = study.get_trials()
    study.ask()
    late = ask(study, search, 0, history, {})
    assert late.number == study.trials[1].number == 1
    late.set_user_attr("seen", True)
    study.tell(late, 0.0)
    assert study.trials[1].user_attrs["seen"]
    assert study.trials[1].value == 0.0
    assert study.trials[0].state == STATES.RUNNING
