"""The Optuna study of a search: where it stands, whether it is still the same search, and when it is done."""

import json
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from isoscope.analysis.provenance import worked
from isoscope.config.grid import combinations, point
from isoscope.config.search import Search
from isoscope.config.tree import flatten
from isoscope.errors import InputError
from isoscope.search.leases import BASELINE, Leases, turn
from isoscope.search.samplers import pruner
from isoscope.search.space import chosen
from isoscope.search.storage import Place, away, connect, in_line, visited

IDENTITY, AXIS, STEPS = "isoscope", "axis", "steps"
BASE = "default"
"""Of a study: what the default arm came to."""
_SHOWN = 3


class Opened(NamedTuple):
    """A study to work on."""

    study: optuna.Study
    storage: RDBStorage
    leases: Leases
    search: Search
    where: Place

    def trial_id(self, number: int) -> int:
        """Identity of a trial in the storage."""
        study = self.storage.get_study_id_from_name(self.study.study_name)
        return self.storage.get_trial_id_from_study_id_trial_number(study, number)


class Kept(NamedTuple):
    """Trials that were kept outside a storage, and the search they are of."""

    identity: Mapping[str, Any]
    trials: list[FrozenTrial]
    default: Mapping[str, float] | None
    """What the default arm came to, as they were held against it."""


def create(
    search: Search,
    identity: Mapping[str, Any],
    where: Place,
    *,
    steps: int,
    fork: bool = False,
    join: bool = False,
    kept: Kept | None = None,
) -> str:
    """The name of the study of this very search, made where there is none: `name`, or `name-2`, … of its forks.

    `join`: only find it. `kept`: trials of an earlier storage that a new study begins with. Raises `InputError` where
    studies of that name are of other searches and none is to be made beside them; it says in what they differ.
    """
    leases = where.leases(search.name)
    try:
        with turn(leases), visited(where) as storage:
            family = _family(storage, search.name)
            for name, before in family.items():
                if before == identity:
                    if kept is not None and kept.identity == identity:
                        with ExitStack() as stack:
                            if name != search.name:  # a fork's workers take their own turns
                                stack.enter_context(turn(stack.enter_context(closing(where.leases(name)))))
                            _catch_up(optuna.load_study(study_name=name, storage=storage), kept)
                    return name
            if join and not family:
                raise _none(search, where)
            if family and (join or not fork):
                name, before = list(family.items())[-1]
                raise InputError(
                    f"search {name!r} in {where.shown} was another one: {differences(before, identity)}; "
                    "put that back, or make a new study beside it with --fork"
                )
            name = _free(storage, search.name)
            study = optuna.create_study(study_name=name, storage=storage, directions=directions(search))
            study.set_user_attr(STEPS, steps)  # the first: by it a study that is half made is known for ours
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)
                study.set_metric_names(list(search.objectives))
            study.set_user_attr(AXIS, next((one for one in search.space if "." not in one), None))
            if kept is not None and kept.identity == identity:
                _add(study, kept.trials)
                if kept.default:
                    study.set_user_attr(BASE, dict(kept.default))
            study.set_user_attr(IDENTITY, identity)  # the last: a study without it is not finished being made
            return name
    except away() as error:
        raise InputError(f"storage {where.shown}: does not open ({in_line(error)})") from None
    finally:
        leases.close()


def _add(study: optuna.Study, trials: Sequence[FrozenTrial]) -> None:
    """Add trials under the next numbers; a trial that was running is queued, with its choices."""
    for trial in trials:
        if trial.state == TrialState.RUNNING:
            study.enqueue_trial(trial.params, user_attrs=trial.user_attrs)
        else:
            study.add_trial(trial)


def _catch_up(study: optuna.Study, kept: Kept) -> None:
    """Add the trials that were kept and are not in the study, as after `dvc pull` of what was found elsewhere.

    Raises `InputError` where the two have parted.
    """
    trials = study.get_trials(deepcopy=False)
    if len(kept.trials) <= len(trials):
        return
    for ours, theirs in zip(trials, kept.trials, strict=False):
        if _parted(ours, theirs):
            raise InputError(
                f"search {study.study_name!r}: trial {ours.number} is one thing in the storage and another in the "
                "table of trials that was kept, which is longer; delete one of them"
            )
    _add(study, kept.trials[len(trials) :])


def _parted(ours: FrozenTrial, theirs: FrozenTrial) -> bool:
    """Whether a trial became two things; one that has not ended, or not chosen all, may still become the other."""
    ended = ours.state.is_finished() and theirs.state.is_finished()
    common = ours.params.keys() & theirs.params.keys()
    return any(ours.params[name] != theirs.params[name] for name in common) or (ended and ours.values != theirs.values)


def opened(search: Search, name: str, where: Place, *, steps: int) -> Opened:
    """The study `name`, for a process that works on it. Sampler and pruner are set before each trial."""
    storage = connect(where, known=True)
    study = optuna.load_study(study_name=name, storage=storage, pruner=pruner(search, steps))
    return Opened(study, storage, where.leases(name), search, where)


def forget(one: Opened) -> None:
    """Delete a study that nothing came of, neither a default nor a trial but failed ones: it would be in the way."""
    with turn(one.leases):
        trials = one.study.get_trials(deepcopy=False)
        free = BASE not in one.study.user_attrs and one.leases.take(BASELINE)  # nobody else is at it
        if free and all(trial.state == TrialState.FAIL for trial in trials):
            optuna.delete_study(study_name=one.study.study_name, storage=one.storage)
    one.leases.close()


def latest(search: Search, where: Place) -> optuna.Study:
    """The newest study of a search's name, to look at. Raises `InputError` where there is none."""
    if not where.exists:
        raise _none(search, where)
    storage = connect(where)
    family = _family(storage, search.name)
    if not family:
        raise _none(search, where)
    return optuna.load_study(study_name=list(family)[-1], storage=storage)


def _none(search: Search, where: Place) -> InputError:
    return InputError(f"search {search.name!r}: no such study in {where.shown}; begin it: isoscope search run")


def directions(search: Search) -> list[StudyDirection]:
    """Of the objectives, as Optuna has them."""
    return [StudyDirection[one.replace("imise", "imize").upper()] for one in search.objectives.values()]


def _family(storage: RDBStorage, name: str) -> dict[str, Any]:
    """Names of a search's studies, in the order they were made → the search they are of."""
    found = {study: attrs.get(IDENTITY) for study, attrs in _namesakes(storage, name).items()}
    return {study: identity for study, identity in found.items() if identity is not None}


def _namesakes(storage: RDBStorage, name: str) -> dict[str, Any]:
    """Names of studies called as a search's are → their attributes; also others' than ours."""
    found: dict[str, Any] = {}
    for study in storage.get_all_studies():
        stem, dash, number = study.study_name.rpartition("-")
        if study.study_name == name or (dash and stem == name and number.isdecimal()):
            found[study.study_name] = study.user_attrs
    return found


def _free(storage: RDBStorage, name: str) -> str:
    """The name of the next study of a search; one that was half made (its maker was killed) is made again.

    Raises `InputError` where somebody else's study is called so.
    """
    known = _namesakes(storage, name)
    for study, attrs in list(known.items()):
        if STEPS in attrs and IDENTITY not in attrs:
            optuna.delete_study(study_name=study, storage=storage)
            del known[study]
        elif study == name and IDENTITY not in attrs:
            raise InputError(f"search.name: {name!r} is another's study in this storage; choose another name")
    numbers = [int(study.rpartition("-")[2]) if study != name else 1 for study in known]
    return name if not known else f"{name}-{max(numbers) + 1}"


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """In which names two searches differ, and from what to what."""
    old, new = (flatten(json.loads(json.dumps(one))) for one in (before, now))
    changed = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    shown = [f"{name} {old.get(name, 'absent')} → {new.get(name, 'absent')}" for name in changed[:_SHOWN]]
    return "; ".join(shown) + (f"; and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else "")


def spent(trials: Sequence[FrozenTrial], search: Search) -> bool:
    """Whether no further trial is to be begun: the budget is spent, or all of a grid is tried or being tried."""
    begun = [trial for trial in trials if trial.state != TrialState.WAITING]
    if search.sampler.kind == "grid":
        tried = {point(search, chosen(search, trial.params)) for trial in begun} - {None}
        if len(tried) >= combinations(search):
            return True
    bound, hours = search.budget.hours, sum(worked(trial) or 0.0 for trial in begun) / 3600
    return len(begun) >= search.budget.trials or (bound is not None and hours >= bound)
