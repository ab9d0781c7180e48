"""Trials stored in a results folder: read them, and compare them with dvc.lock and with the runs that they name."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa
from optuna.trial import TrialState

from isoscope.base.atomic_files import altered
from isoscope.base.errors import InputError, first_line
from isoscope.base.paths import Project
from isoscope.platform.config.searching import Search
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.runs.stored import LOCK, locked
from isoscope.platform.search import space
from isoscope.platform.search.outcomes import PROVENANCE
from isoscope.platform.search.trials_table import DamagedError, StoredTrials, rebuilt
from isoscope.platform.search.under_way import judged, means_of
from isoscope.platform.stages.search_runs import TrainingRun

STUDY, TRIALS = "study.json", "trials.parquet"
Plan = Callable[..., Sequence[TrainingRun]]


def kept(folder: Path, search: Search, project: Project, runs: Plan) -> StoredTrials | None:
    """Trials stored in a results folder, as in a fresh clone after `dvc pull`; None if there are none.

    `runs`: choices → training runs. Raises `InputError` if the files are damaged. The trials are verified later, if a
    study is rebuilt from them.
    """
    if not (folder / STUDY).exists():
        return None
    try:
        known = json.loads((folder / STUDY).read_text("utf-8"))
        if not known["counts"]:
            return None
        if wrong := altered(folder):
            raise ValueError(wrong)
        trials, default = rebuilt(pd.read_parquet(folder / TRIALS)), known["default"]
        found = StoredTrials(known["identity"], trials, default and {name: float(default[name]) for name in default})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        reason = f"{folder}: not a results folder of isoscope search ({first_line(error)})"
        raise DamagedError(reason, _cure(folder)) from None
    return found._replace(verify=partial(_verify, folder, search, project, runs, found))


def _cure(folder: Path) -> str:
    return f"restore it: dvc checkout --force {folder}, or delete it: the search starts again and reuses finished runs"


def _verify(folder: Path, search: Search, project: Project, runs: Plan, stored: StoredTrials) -> None:
    """Raise `InputError` unless dvc.lock names the folder's bytes, and the runs that are here logged the values."""
    place = folder.relative_to(project.folder).as_posix() if folder.is_relative_to(project.folder) else str(folder)
    if locked(project.folder).get(place) != dvc_md5(folder):
        raise InputError(
            f"{place}: the study is not in the storage, and {LOCK} does not name these files; {_cure(Path(place))}"
        )
    for wrong in _faults(search, runs, stored):
        raise InputError(f"{place}/{TRIALS}: {wrong}; {_cure(Path(place))}")


def _faults(search: Search, runs: Plan, stored: StoredTrials) -> Iterator[str]:
    """Yield what the runs contradict: choices of a trial, its values or constraints, metrics of the default arm."""
    default = dict(stored.default or {})
    if default and (means := _means(search, runs({}))) not in (None, default):
        yield f"the default arm has {default}, but its runs logged {means}"
    for trial in stored.trials:
        named = trial.user_attrs.get(PROVENANCE, {}).get("digests")
        if named is None and not trial.state.is_finished():
            continue  # queued, or its worker was killed before its first run
        try:
            own = runs(space.chosen(search, trial.params))
        except InputError as error:
            yield f"trial {trial.number}: {error}"
            continue
        if named != [one.digest for one in own]:
            yield f"trial {trial.number}: its choices {trial.params} do not give the runs that it names"
        elif trial.state == TrialState.COMPLETE and (means := _means(search, own)) is not None:
            stands = _named(search, trial.values, trial.constraints)
            for name, value in _named(search, *judged(search, means, default)).items():
                if stands.get(name) != value:
                    yield f"trial {trial.number}: {name} is {stands.get(name)}, but its runs logged {value}"


def _named(search: Search, values: Sequence[float], constraints: Mapping[str, float]) -> dict[str, float]:
    """Objectives and constraints of a trial by name."""
    limits = {f"constraint {name}": value for name, value in constraints.items()}
    return dict(zip(search.objectives, values, strict=True)) | limits


def _means(search: Search, runs: Sequence[TrainingRun]) -> dict[str, float] | None:
    """Means of objectives and constraints over runs; None if a run is not here."""
    found = [metrics for run in runs if (metrics := run.stored()) is not None]
    return means_of(search, found) if len(found) == len(runs) else None
