"""The Optuna study of a search: create it, find it again, compare its identity, decide when it is done, record it."""

import hashlib
import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.platform.config.searching import Search
from isoscope.platform.config.tree import NOT_IN_DIGEST, flatten
from isoscope.platform.runs.provenance import Git
from isoscope.platform.runs.record import Record
from isoscope.platform.search.leases import BASELINE, Leases, turn
from isoscope.platform.search.outcomes import PROVENANCE, worked
from isoscope.platform.search.samplers import pruner
from isoscope.platform.search.space import chosen, combinations, point
from isoscope.platform.search.storage import AWAY, Place, connect, in_line
from isoscope.platform.search.stored_trials import StoredTrials, add, catch_up, needed_of, nothing_stored

_NOT_OF_IT = ("name", "study", "budget", "retries", "sampler", "pruner")
IDENTITY, AXIS, STEPS = "isoscope", "axis", "steps"
BASE = "default"
"""Attribute of a study: metrics of the default arm."""
_SHOWN = 3
_ENDS = {TrialState.COMPLETE: "FINISHED", TrialState.PRUNED: "KILLED", TrialState.FAIL: "FAILED"}


class OpenStudy(NamedTuple):
    """An open study: Optuna's object, its storage, its leases and its search."""

    study: optuna.Study
    storage: RDBStorage
    leases: Leases
    search: Search
    where: Place


def create(
    search: Search,
    identity: Mapping[str, Any],
    where: Place,
    *,
    steps: int,
    fork: bool = False,
    join: bool = False,
    kept: Callable[[], StoredTrials | None] = nothing_stored,
) -> str:
    """Find or create the study with this identity; return its name: `name`, or `name-2`, … for forks.

    `join`: only find it. `kept`: reads trials from files, to rebuild or extend the study. Raises `InputError` if
    studies of that name have another identity and `fork` is not set (the message lists the differences), and if the
    study must be rebuilt from files that are damaged.
    """
    try:
        with closing(where.leases(search.name)) as leases, turn(leases), ExitStack() as stack:
            storage = connect(where)
            stack.callback(storage.engine.dispose)
            family = _family(storage, search.name)
            name = next((name for name, before in family.items() if before == identity), None)
            stored = needed_of(kept, identity, needed=name is None)
            if name is not None and stored is not None:
                if name != search.name:  # workers of a fork use its own locks
                    stack.enter_context(turn(stack.enter_context(closing(where.leases(name)))))
                catch_up(optuna.load_study(study_name=name, storage=storage), stored)
            if name is not None:
                return name
            if join and not family:
                raise _none(search, where)
            if family and (join or not fork):
                name, before = list(family.items())[-1]
                raise InputError(
                    f"search {name!r} in {where.shown} has other settings: {differences(before, identity)}; "
                    "restore them, or create a new study with --fork"
                )
            if stored is not None:
                stored.verify()
            directions = [StudyDirection[one.replace("imise", "imize").upper()] for one in search.objectives.values()]
            study = optuna.create_study(study_name=_free(storage, search.name), storage=storage, directions=directions)
            study.set_user_attr(STEPS, steps)  # first: marks an unfinished study as created by isoscope
            with warnings.catch_warnings(action="ignore", category=ExperimentalWarning):
                study.set_metric_names(list(search.objectives))
            study.set_user_attr(AXIS, next((one for one in search.space if "." not in one), None))
            if stored is not None:
                add(study, stored.trials)
                if stored.default:
                    study.set_user_attr(BASE, dict(stored.default))
            study.set_user_attr(IDENTITY, identity)  # last: a study without it is unfinished
            return study.study_name
    except AWAY as error:
        raise InputError(f"storage {where.shown}: cannot be opened ({in_line(error)})") from None


def opened(search: Search, name: str, where: Place, *, steps: int) -> OpenStudy:
    """Open the study `name` for a worker. The sampler is set before each trial."""
    storage = connect(where, known=True)
    study = optuna.load_study(study_name=name, storage=storage, pruner=pruner(search, steps))
    return OpenStudy(study, storage, where.leases(name), search, where)


def forget(one: OpenStudy) -> None:
    """Delete a study without results: no default arm measured, no trial except failed trials."""
    with turn(one.leases):
        trials = one.study.get_trials(deepcopy=False)
        free = BASE not in one.study.user_attrs and one.leases.take(BASELINE)  # no other worker measures it
        if free and all(trial.state == TrialState.FAIL for trial in trials):
            optuna.delete_study(study_name=one.study.study_name, storage=one.storage)
    one.leases.close()


def latest(search: Search, where: Place) -> optuna.Study:
    """The newest study with the name of a search. Raises `InputError` if there is none."""
    if not where.exists:  # opening it would make an empty file
        raise _none(search, where)
    storage = connect(where)
    family = _family(storage, search.name)
    if not family:
        raise _none(search, where)
    return optuna.load_study(study_name=list(family)[-1], storage=storage)


def _none(search: Search, where: Place) -> InputError:
    return InputError(f"search {search.name!r}: no such study in {where.shown}; start it: isoscope search run")


def _family(storage: RDBStorage, name: str) -> dict[str, Any]:
    """Names of the studies of a search, oldest first → identity."""
    return {study: attrs[IDENTITY] for study, attrs in _namesakes(storage, name).items() if IDENTITY in attrs}


def _namesakes(storage: RDBStorage, name: str) -> dict[str, Any]:
    """Names of studies with the name of a search → attributes; studies of other programs included."""
    named = re.compile(rf"{re.escape(name)}(-\d+)?")
    return {one.study_name: one.user_attrs for one in storage.get_all_studies() if named.fullmatch(one.study_name)}


def _free(storage: RDBStorage, name: str) -> str:
    """The name of the next study of a search. An unfinished study (its process was killed) is deleted first.

    Raises `InputError` if another program's study has the name.
    """
    numbers = []
    for study, attrs in _namesakes(storage, name).items():
        if STEPS in attrs and IDENTITY not in attrs:
            optuna.delete_study(study_name=study, storage=storage)
        elif study == name and IDENTITY not in attrs:
            raise InputError(f"search.name: the storage has a study {name!r} of another program; choose another name")
        else:
            numbers.append(1 if study == name else int(study.rpartition("-")[2]))
    return f"{name}-{max(numbers) + 1}" if numbers else name


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Names in which two identities differ, with old and new value."""
    old, new = flatten(before), flatten(now)
    changed = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    shown = [f"{name} {old.get(name, 'absent')} → {new.get(name, 'absent')}" for name in changed[:_SHOWN]]
    return "; ".join(shown) + (f"; and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else "")


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

    Name, budget, sampler and pruner are left out: they may change within a study. `fixed`: the default arm, resolved;
    `overlays`: overlay files named in the space; `plugins`: file → sha256 of its code.
    """
    parts = {name: value for name, value in search.model_dump(mode="json").items() if name not in _NOT_OF_IT}
    parts["objectives"] = list(parts["objectives"].items())  # Optuna stores values by position
    numbers = {name: value for name, value in flatten(fixed).items() if name not in NOT_IN_DIGEST}
    known = {"plugins": dict(plugins)} if plugins else {}
    whole = {**parts, "default": numbers, "overlays": overlays, "inputs": inputs, "code": code, **known}
    return json.loads(json.dumps(whole))


def digest(of: Mapping[str, Any], *, name: str, trial: int | None = None) -> str:
    """sha256 (hex) of a study, or of a trial of it."""
    text = json.dumps([of, name, trial], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def note_trial(
    project: Project,
    search: Search,
    trial: FrozenTrial,
    *,
    identity: Mapping[str, Any],
    name: str,
    git: Git,
    environment: Mapping[str, Any],
) -> None:
    """Write the record of an ended trial: parameters, outcome, digests of its runs. Idempotent."""
    own = digest(identity, name=name, trial=trial.number)
    with Record(project.records / f"{own}.jsonl") as record:
        if record.before.end is not None:
            return
        provenance = trial.user_attrs[PROVENANCE]
        record.run(
            digest=own,
            stage="trial",
            study=f"search-{search.name}",
            arm=f"trial {trial.number}",
            params=trial.params,
            parent=digest(identity, name=name),
            tags={
                "optuna.state": trial.state.name,
                "optuna.study": name,
                "optuna.trial": str(trial.number),
                "isoscope.runs": " ".join(provenance["digests"]),
            },
        )
        record.attempt(git=git, environment=environment)
        metrics = dict(zip(search.objectives, trial.values or (), strict=False))
        metrics |= {f"constraint/{name}": value for name, value in trial.constraints.items()}
        for metric, value in {**metrics, "seconds": provenance["seconds"]}.items():
            record.metric(metric, value, step=0)
        record.end(_ENDS[trial.state], reason=trial.user_attrs.get("error"))


def begin_study(
    record: Record, search: Search, *, identity: Mapping[str, Any], name: str, git: Git, environment: Mapping[str, Any]
) -> None:
    """Start or continue the record of a study."""
    record.run(
        digest=digest(identity, name=name),
        stage="search",
        study=f"search-{search.name}",
        arm=f"search {name}",
        params=flatten(search.model_dump(mode="json")),
        code=identity["code"],
        tags={"optuna.study": name},
    )
    record.attempt(git=git, environment=environment)
