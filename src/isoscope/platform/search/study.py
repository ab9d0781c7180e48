"""The Optuna study of a search: create it, find it again, compare its identity, decide when it is done."""

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from isoscope.base.errors import InputError
from isoscope.platform.config.searching import Search
from isoscope.platform.config.tree import NOT_IN_DIGEST, changes, flatten
from isoscope.platform.search.outcomes import worked
from isoscope.platform.search.space import chosen, combinations, inside, point, pruner
from isoscope.platform.search.storage import TROUBLE, Place, connect, held, refusal
from isoscope.platform.search.trials_table import StoredTrials, add, catch_up, needed_of

_NOT_OF_IT = ("name", "study", "budget", "retries", "sampler", "pruner")
_OF_SPACE = ("space", "overlays", "code", "plugins")
IDENTITY, AXIS, STEPS, REPORTS = "isoscope", "axis", "steps", "pruner reports"
BASE = "default"
"""Attribute of a study: metrics of the default arm."""
_SHOWN = 3


class HeldStudy(NamedTuple):
    """A study that this process drives: Optuna's object, its storage, its search."""

    study: optuna.Study
    storage: RDBStorage
    search: Search
    where: Place
    check: Callable[[], None]
    """Raises `HeldError` if its lock was lost with a connection, and another process has taken it."""
    began: bool
    """Whether it had trials before."""


def stored_study(search: Search, identity: Mapping[str, Any], where: Place) -> optuna.Study:
    """The study with this identity. Raises `InputError` if there is none; differences are named."""
    storage = connect(where) if where.exists else None  # opening it would make an empty file
    name = None if storage is None else _found(storage, search, identity, where)
    if storage is None or name is None:
        raise InputError(f"search {search.name!r}: no such study in {where.shown}; start it: isoscope search run")
    return optuna.load_study(study_name=name, storage=storage)


@contextmanager
def held_study(
    search: Search,
    identity: Mapping[str, Any],
    where: Place,
    *,
    steps: int,
    fork: bool = False,
    kept: Callable[[], StoredTrials | None] = lambda: None,
    fits: Callable[[FrozenTrial], bool] = lambda _: False,
) -> Iterator[HeldStudy]:
    """Find or create the study with this identity, and hold its lock: `name`, or `name-2`, … for forks.

    - `kept`: reads trials from files, to rebuild or extend the study.
    - `fits`: whether a trial of a study with a smaller space has the runs that its choices give now. A new study begins
      with such trials.

    Raises `HeldError` that names another driver, and `InputError` if studies of that name have another identity and
    `fork` is not set, or if the study must be rebuilt from files that are damaged.
    """
    storage = connect(where)
    find = partial(_found, storage, search, identity, where, fork=fork)
    try:
        name = find() or _free(storage, search.name)
        with held(where, name) as check:
            new = find() is None
            stored = needed_of(kept, identity, needed=new)
            if new:
                first = stored or _inherited(storage, search, identity, name, fits)
                if first is not None:
                    first.verify()
                study = _created(storage, search, identity, name, steps, first)
            else:
                study = optuna.load_study(study_name=name, storage=storage)
                if stored is not None:
                    catch_up(study, stored)
            study.pruner = pruner(search, steps)
            yield HeldStudy(study, storage, search, where, check, bool(study.get_trials(deepcopy=False)))
    except TROUBLE as error:
        raise refusal(f"storage {where.shown}", error) from None
    finally:
        storage.engine.dispose()


def _created(
    storage: RDBStorage, search: Search, identity: Mapping[str, Any], name: str, steps: int, first: StoredTrials | None
) -> optuna.Study:
    """A new study with its `first` trials. An unfinished study of that name (its process was killed) is deleted."""
    if name in _namesakes(storage, search.name):
        optuna.delete_study(study_name=name, storage=storage)
    directions = [StudyDirection[one.replace("imise", "imize").upper()] for one in search.objectives.values()]
    study = optuna.create_study(study_name=name, storage=storage, directions=directions)
    study.set_user_attr(STEPS, steps)  # first: marks an unfinished study as created by isoscope
    with warnings.catch_warnings(action="ignore", category=ExperimentalWarning):
        study.set_metric_names(list(search.objectives))
    study.set_user_attr(AXIS, next((one for one in search.space if "." not in one), None))
    if first is not None:
        add(study, first.trials)
        if first.default:
            study.set_user_attr(BASE, dict(first.default))
    study.set_user_attr(IDENTITY, identity)  # last: a study without it is unfinished
    return study


def _inherited(
    storage: RDBStorage, search: Search, identity: Mapping[str, Any], name: str, fits: Callable[[FrozenTrial], bool]
) -> StoredTrials | None:
    """Ended trials inside this space of the newest study whose space has grown to it."""
    for other, before in reversed(_family(storage, search.name).items()):
        if grown(before, identity):
            study = optuna.load_study(study_name=other, storage=storage)
            known = [inside(search, trial) for trial in study.trials if trial.state.is_finished()]
            trials = [trial for trial in known if trial is not None and fits(trial)]
            kept = f"{len(trials)} of {len(study.trials)} trials of {other} lie in its space and are kept"
            print(f"isoscope: search {name}: {kept}", file=sys.stderr)
            return StoredTrials(identity, trials, study.user_attrs.get(BASE))
    return None


def forget(one: HeldStudy) -> None:
    """Delete a study without results: no default arm measured, no trial complete or pruned."""
    states = {trial.state for trial in one.study.get_trials(deepcopy=False)}
    if BASE not in one.study.user_attrs and not states & {TrialState.COMPLETE, TrialState.PRUNED}:
        optuna.delete_study(study_name=one.study.study_name, storage=one.storage)


def _found(
    storage: RDBStorage, search: Search, identity: Mapping[str, Any], where: Place, *, fork: bool = False
) -> str | None:
    """The name of the study with this identity; None if there is none.

    Raises `InputError` if there are others of the search, and `fork` is not set; and if its trials cannot be read.
    """
    try:
        family = _family(storage, search.name)
        name = next((name for name, before in family.items() if before == identity), None)
        if name is not None:
            storage.get_all_trials(storage.get_study_id_from_name(name))
    except (*TROUBLE, ValueError, LookupError, TypeError, AttributeError) as error:
        raise refusal(f"storage {where.shown}", error) from None
    if name is None and family and not fork:
        name, before = list(family.items())[-1]
        more = ", which keeps the trials that lie in the new space" if grown(before, identity) else ""
        raise InputError(
            f"search {name!r} in {where.shown} has other settings: {differences(before, identity)}; "
            f"restore them, or create a new study: isoscope search run --fork{more}"
        )
    return name


def _family(storage: RDBStorage, name: str) -> dict[str, Any]:
    """Names of the studies of a search, oldest first → identity."""
    return {study: attrs[IDENTITY] for study, attrs in _namesakes(storage, name).items() if IDENTITY in attrs}


def _namesakes(storage: RDBStorage, name: str) -> dict[str, Any]:
    """Names of studies with the name of a search → attributes; studies of other programs included."""
    named = re.compile(rf"{re.escape(name)}(-\d+)?")
    return {one.study_name: one.user_attrs for one in storage.get_all_studies() if named.fullmatch(one.study_name)}


def _free(storage: RDBStorage, name: str) -> str:
    """The name of the next study of a search; that of an unfinished study (its process was killed) is free.

    Raises `InputError` if another program's study has the name.
    """
    taken = {
        study: attrs for study, attrs in _namesakes(storage, name).items() if IDENTITY in attrs or STEPS not in attrs
    }
    if name in taken and IDENTITY not in taken[name]:
        how = f"optuna delete-study --study-name {name} --storage URL"
        empty = "" if taken[name] else f"; if a killed isoscope left it (it is empty), delete it: {how}"
        raise InputError(
            f"search.name: the storage has a study {name!r} of another program; choose another name{empty}"
        )
    numbers = [1 if study == name else int(study.rpartition("-")[2]) for study in taken]
    return f"{name}-{max(numbers) + 1}" if numbers else name


def grown(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether two identities differ in their space alone, and in what more choices bring: overlays, code, plugins."""
    own = [{name: value for name, value in one.items() if name not in _OF_SPACE} for one in (before, now)]
    codes = [set(one["code"].split()) for one in (before, now)]
    plugins = [one.get("plugins", {}).items() for one in (before, now)]
    return own[0] == own[1] and codes[0] <= codes[1] and plugins[0] <= plugins[1]


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Names in which two identities differ, with old and new value."""
    changed = [*changes(flatten(before), flatten(now)).values()]
    return "; ".join(changed[:_SHOWN]) + (f"; and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else "")


def spent(trials: Sequence[FrozenTrial], search: Search) -> bool:
    """Whether to start no further trial: the budget is spent, or every grid point is tried or running."""
    begun = [trial for trial in trials if trial.state != TrialState.WAITING]
    if search.sampler.kind == "grid":
        tried = {point(search, chosen(search, trial.params)) for trial in begun} - {None}
        if len(tried) >= combinations(search):
            return True
    bound, hours = search.budget.hours, sum(worked(trial) for trial in begun) / 3600
    return len(begun) >= search.budget.trials or (bound is not None and hours >= bound)


def identity(
    search: Search,
    *,
    fixed: Mapping[str, Any],
    overlays: Mapping[str, Any],
    inputs: Mapping[str, str],
    code: str,
    plugins: Mapping[str, str],
) -> dict[str, Any]:
    """Everything that determines the value of a trial: space, objectives, seeds, fixed parameters, data, code.

    Name, budget, sampler and pruner are left out: they may change within a study, except that trials which report by
    seed and trials which report by epoch cannot be compared. `fixed`: the default arm, resolved; `overlays`: overlay
    files named in the space; `plugins`: file → sha256 of its code.
    """
    parts = {name: value for name, value in search.model_dump(mode="json").items() if name not in _NOT_OF_IT}
    parts["objectives"] = list(parts["objectives"].items())  # Optuna stores values by position
    numbers = {name: value for name, value in flatten(fixed).items() if name not in NOT_IN_DIGEST}
    known: dict[str, Any] = {"plugins": dict(plugins)} if plugins else {}
    known |= {REPORTS: "by seed"} if search.by_seed else {}
    whole = {**parts, "default": numbers, "overlays": overlays, "inputs": inputs, "code": code, **known}
    return json.loads(json.dumps(whole))
