"""The Optuna study of a search: where it stands, whether it is still the same search, and when it is done."""

import json
import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError

from isoscope.config.search import Search
from isoscope.config.tree import flatten
from isoscope.errors import InputError
from isoscope.search.leases import FileLeases, Leases, PostgresLeases, turn
from isoscope.search.samplers import pruner

VARIABLE = "ISOSCOPE_SEARCH"
"""Names the storage of every search, unless --storage does."""
IDENTITY, AXIS, STEPS, EXHAUSTED = "isoscope", "axis", "steps", "exhausted"
BASE = "default"
"""Of a study: what the default arm came to."""
PATIENCE = 600.0
"""Seconds that a storage may be away."""
_SHOWN = 3
Returned = TypeVar("Returned")


class Place(NamedTuple):
    """Where studies are kept: `url` as Optuna takes it, and the folder of locks and logs on this machine."""

    url: URL
    folder: Path

    @property
    def shown(self) -> str:
        """The address without its password."""
        return self.url.render_as_string(hide_password=True)

    def leases(self, study: str) -> Leases:
        """The locks of a study."""
        if self.url.get_backend_name() == "sqlite":
            return FileLeases(self.folder / study / "leases")
        plain = self.url.set(drivername="postgresql")
        return PostgresLeases(plain.render_as_string(hide_password=False), study)


def place(url: str | None, folder: Path) -> Place:
    """The storage at `url` (None: a SQLite file in `folder`). Raises `InputError` for what is no such address."""
    folder.mkdir(parents=True, exist_ok=True)
    expected = "expected sqlite:///FILE or postgresql://HOST/DATABASE"  # what is wrong may hold a password
    try:
        known = make_url(url or f"sqlite:///{folder / 'studies.db'}")
        backend = known.get_backend_name()
    except (ArgumentError, ValueError):
        raise InputError(f"--storage: no such address; {expected}") from None
    if backend not in ("sqlite", "postgresql") or not known.database or known.database == ":memory:":
        raise InputError(f"storage {known.render_as_string(hide_password=True)!r}: {expected}")
    if backend == "sqlite":
        path = Path(known.database)
        if not path.parent.is_dir():
            raise InputError(f"storage {known.database!r}: {path.parent} is no folder; make it first")
        folder = path.resolve().parent if url else folder
    return Place(known.set(drivername="postgresql+psycopg") if backend == "postgresql" else known, folder)


def connect(where: Place, *, known: bool = False) -> RDBStorage:
    """Optuna's storage there; `known`: its tables were looked at. Raises `InputError` where it does not answer."""
    optuna.logging.set_verbosity(logging.WARNING)
    sqlite = where.url.get_backend_name() == "sqlite"
    options: dict[str, Any] = {"connect_args": {"timeout": 60}} if sqlite else {"pool_pre_ping": True}
    try:
        return RDBStorage(
            where.url.render_as_string(hide_password=False),
            engine_kwargs=options,
            skip_compatibility_check=known,
            skip_table_creation=known,
        )
    except ImportError as error:
        raise InputError(
            f"storage {where.shown}: {error.name} is missing; pip install 'isoscope[postgresql]'"
        ) from None
    except (SQLAlchemyError, StorageInternalError, RuntimeError) as error:
        raise InputError(f"storage {where.shown}: does not open ({_line(error)})") from None


class Opened(NamedTuple):
    """A study to work on."""

    study: optuna.Study
    leases: Leases
    search: Search
    where: Place


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
        with turn(leases):
            storage = connect(where)
            family = _family(storage, search.name)
            for name, before in family.items():
                if before == identity:
                    return name
            if join and not family:
                raise InputError(
                    f"search {search.name!r}: no such study in {where.shown}; begin it: isoscope search run"
                )
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
                study.add_trials(kept.trials)
                if kept.default:
                    study.set_user_attr(BASE, dict(kept.default))
            study.set_user_attr(IDENTITY, identity)  # the last: a study without it is not finished being made
            return name
    except away() as error:
        raise InputError(f"storage {where.shown}: does not open ({_line(error)})") from None
    finally:
        leases.close()


def opened(search: Search, name: str, where: Place, *, steps: int) -> Opened:
    """The study `name`, for a process that works on it. Sampler and pruner are set before each trial."""
    study = optuna.load_study(study_name=name, storage=connect(where, known=True), pruner=pruner(search, steps))
    return Opened(study, where.leases(name), search, where)


def latest(search: Search, where: Place) -> optuna.Study:
    """The newest study of a search's name, to look at. Raises `InputError` where there is none."""
    storage = connect(where)
    family = _family(storage, search.name)
    if not family:
        raise InputError(f"search {search.name!r}: no such study in {where.shown}; begin it: isoscope search run")
    return optuna.load_study(study_name=list(family)[-1], storage=storage)


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
            found[study.study_name] = storage.get_study_user_attrs(study._study_id)
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


def spent(study: optuna.Study, trials: Sequence[FrozenTrial], search: Search) -> bool:
    """Whether no further trial is to be begun: the budget is spent, or all of a grid was tried."""
    if search.sampler.kind == "grid" and study.user_attrs.get(EXHAUSTED):
        return True
    begun = [trial for trial in trials if trial.state != TrialState.WAITING]
    hours = sum(trial.user_attrs.get("seconds", 0.0) for trial in begun) / 3600
    bound = search.budget.hours
    return len(begun) >= search.budget.trials or (bound is not None and hours >= bound)


def away() -> tuple[type[Exception], ...]:
    """What a storage raises while it is away."""
    known: list[type[Exception]] = [StorageInternalError, OperationalError]
    if find_spec("psycopg"):
        from psycopg import OperationalError as Away

        known.append(Away)
    return tuple(known)


def persist(call: Callable[[], Returned], what: str, say: Callable[[str], None]) -> Returned:
    """`call()`, again and again while the storage is away, for ten minutes at most. Raises `InputError` then."""
    began, pause, told = time.monotonic(), 0.1, False
    while True:
        try:
            found = call()
        except away() as error:
            if time.monotonic() - began > PATIENCE:
                raise InputError(f"{what}: has been away for {PATIENCE / 60:.0f} minutes ({_line(error)})") from None
            if not told:
                say(f"{what} does not answer: waiting for it ({_line(error)})")
            told = True
            time.sleep(pause)
            pause = min(2 * pause, 5.0)
            continue
        if told:
            say(f"{what} is back")
        return found


def _line(error: Exception) -> str:
    return " ".join(str(error.__cause__ or error).split())[:200]
