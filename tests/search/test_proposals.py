"""Trials drawn before they exist: what Optuna's own way draws, and all of it at once."""

import optuna
import pytest

from isoscope.search import space
from isoscope.search.proposals import propose
from isoscope.search.samplers import pruner, sampler
from search_work import FINITE, SAMPLERS, a_search

RUNNING = optuna.trial.TrialState.RUNNING


def drawn(kind: str, pruned: dict[str, object], *, at_once: bool) -> list[tuple[object, ...]]:
    """What sixteen trials are, of which every fifth goes on running."""
    changed = {"sampler": {"kind": kind, "seed": 3, **SAMPLERS[kind]}, "pruner": pruned}
    search = a_search(**changed, **({"space": FINITE} if kind == "grid" else {}))
    study = optuna.create_study(pruner=pruner(search, 9))
    for number in range(16):
        study.sampler = sampler(search, number)
        if at_once:
            trial = propose(study, search, number, study.get_trials(deepcopy=False), dict)
        else:
            space.suggest(search, trial := study.ask())
        if number % 5:
            study.tell(trial, trial.params["penalty.weight"])
    return [(one.number, one.state, one.params, one.distributions, one.system_attrs) for one in study.trials]


@pytest.mark.parametrize("pruned", [{"kind": "none"}, {"kind": "hyperband", "reduction": 3}], ids=["whole", "brackets"])
@pytest.mark.parametrize("kind", SAMPLERS)
def test_they_are_those_that_optuna_asks_for_name_by_name(kind: str, pruned: dict[str, object]) -> None:
    ours = drawn(kind, pruned, at_once=True)
    assert ours == drawn(kind, pruned, at_once=False)
    assert len({str(params) for _, _, params, *_ in ours}) > 10


def test_one_that_cannot_be_drawn_whole_is_not_there() -> None:
    class Dies(optuna.samplers.RandomSampler):
        def sample_independent(self, study, trial, name, distribution):
            if name == "penalty.weight":
                raise KeyboardInterrupt
            return super().sample_independent(study, trial, name, distribution)

    search = a_search()
    study = optuna.create_study(sampler=Dies(0))
    with pytest.raises(KeyboardInterrupt):
        propose(study, search, 0, [], dict)
    assert study.trials == []
    with pytest.raises(KeyboardInterrupt):  # Optuna's own leaves what it has
        space.suggest(search, study.ask())
    assert [(trial.state, list(trial.params)) for trial in study.trials] == [(RUNNING, ["fusion"])]
    study.sampler = sampler(search, 1)
    whole = propose(study, search, 1, study.trials, dict)
    (_, known) = study.trials
    assert known.number == whole.number == 1
    assert known._trial_id == whole._trial_id
    assert known.user_attrs == space.chosen(search, whole.params)
    assert known.state == RUNNING
    assert known.params == whole.params
    assert "penalty.weight" in known.params


def test_the_number_is_the_studys_where_another_program_has_added_a_trial() -> None:
    search = a_search()
    study = optuna.create_study(sampler=sampler(search, 0))
    history = study.get_trials()
    study.ask()
    late = propose(study, search, 0, history, dict)
    assert late.number == study.trials[1].number == 1
    late.set_user_attr("seen", True)
    study.tell(late, 0.0)
    assert study.trials[1].user_attrs["seen"]
    assert study.trials[1].value == 0.0
    assert study.trials[0].state == RUNNING
