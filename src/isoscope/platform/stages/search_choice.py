"""Use a trial of a search: adopt it as an overlay, or confirm it with fresh seeds."""

from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from optuna.trial import FrozenTrial, TrialState

from isoscope.base import paths
from isoscope.base.atomic_files import sealed_json, write_text
from isoscope.base.errors import InputError
from isoscope.base.processes import StopSignal
from isoscope.platform.config.declared import declares
from isoscope.platform.config.explain import nearest
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.searching import Search
from isoscope.platform.executor.execute import Piece, side_by_side
from isoscope.platform.executor.placement import Placement
from isoscope.platform.outputs import PREDICTIONS, recorded_metrics
from isoscope.platform.report.sentences import confirmed
from isoscope.platform.runs.lines import plain
from isoscope.platform.search import space
from isoscope.platform.search.confirmation import Fresh, confirmation
from isoscope.platform.search.outcomes import PROVENANCE, front
from isoscope.platform.search.records import digest
from isoscope.platform.search.storage import Place
from isoscope.platform.search.study import stored_study
from isoscope.platform.stages.mirror import following
from isoscope.platform.stages.search import chosen_trial, overlay
from isoscope.platform.stages.search_runs import TrainingRun, identified, plan


class Confirmation(NamedTuple):
    """Difference between a trial and the default over fresh seeds, and the objectives of the trial in the search."""

    trial: int
    seeds: list[int]
    rows: list[dict[str, Any]]
    believed: dict[str, float]
    """Objectives of the trial in the search."""

    def as_text(self) -> str:
        """As text."""
        lines = [f"trial {self.trial} against the default, {len(self.seeds)} fresh seeds:"]
        found = [confirmed(row, self.believed) for row in self.rows]
        return "\n".join([*lines, *(f"  {one['word']}: {one['text']}" for one in found)])


def adopt(
    search: Search, configuration: Configuration, project: paths.Project, where: Place, *, name: str, trial: int | None
) -> tuple[Path, int]:
    """Write `variants/<axis>/<name>.yaml` from a trial; returns the file and the trial's number.

    Raises `InputError` for an invalid name, a name of another overlay, or an unknown axis.
    """
    axis, slash, value = name.partition("/")
    if not slash:
        raise InputError(f"{name!r}: expected AXIS/NAME, such as fusion/found")
    file = configuration.folder / paths.overlay(axis, value)
    if not file.parent.is_dir():
        axes = sorted(folder.name for folder in file.parent.parent.iterdir() if folder.is_dir())
        raise InputError(f"{name!r}: no axis {axis!r} in {paths.VARIANTS}{nearest(axis, axes)}")
    study, known = _trial(search, configuration, project, where, trial)
    runs = " ".join(one[:12] for one in known.user_attrs.get(PROVENANCE, {}).get("digests", ()))
    text = f"# Trial {known.number} of the search {study!r} (runs {runs}), as found; not confirmed by this file.\n"
    text += overlay(configuration, search, known.params)
    if file.exists() and file.read_text("utf-8") != text:
        raise InputError(f"{file.relative_to(configuration.folder)}: exists with other content; choose another name")
    file.write_text(text, "utf-8")
    return file, known.number


def confirm(
    search: Search,
    configuration: Configuration,
    project: paths.Project,
    where: Place,
    *,
    trial: int | None,
    seeds: int,
    workers: int,
    placement: Placement,
    target: Path,
) -> Confirmation:
    """Train a trial and the default with unused seeds and compare them in pairs on the test split.

    `target`: the file to write. Raises `RunError` if a run fails, `StoppedError` after a signal, and `InputError` for
    a search that is judged at the last epoch.
    """
    if search.at == "last":
        raise InputError(
            "search.at: last: confirm reads the test split, which is scored at the best epoch alone; "
            "confirm a search with at: best"
        )
    name, known = _trial(search, configuration, project, where, trial)
    runs = plan(configuration, search, project)
    first = max(search.seeds) + 1
    fresh = list(range(first, first + seeds))
    default, chosen = runs({}, fresh), runs(space.chosen(search, known.params), fresh)
    training = default[0].work.job.parts.training
    place = placement.room_for(training.threads, training.device, project=project)
    with StopSignal() as stop, following(project), place as opened:
        arms = {"default": default, f"trial {known.number}": chosen}
        pieces = [Piece(f"{arm} seed {one.work.run.identity.seed}", one.run) for arm, of in arms.items() for one in of]
        side_by_side(pieces, title="confirm", workers=workers, stop=stop, place=opened)
    old, new = ([_fresh(one) for one in arm] for arm in (default, chosen))
    options = configuration.root.analysis.model_dump(include={"confidence", "power", "margin"})
    options["declared"] = recorded_metrics(default[0].work.run.output)
    found = list(confirmation(list(dict.fromkeys((*search.objectives, *search.constraints))), old, new, **options))
    believed = dict(zip(search.objectives, known.values or (), strict=True))
    result = Confirmation(known.number, fresh, found, believed)
    digests = {name: [one.digest for one in arm] for name, arm in (("default", default), ("chosen", chosen))}
    study = digest(identified(configuration, search, project), name=name)
    text = sealed_json(plain(result._asdict() | {"search": name, "digest": study, "digests": digests}))
    write_text(target, text, "report")
    return result


def _fresh(run: TrainingRun) -> Fresh:
    """Return what `confirmation` compares of a run: item by item, if its objective has shares of items."""
    kind = run.work.job.parts.objective.kind
    by_item = declares(kind, "by_item")
    return Fresh(run.metrics(), by_item(pd.read_parquet(run.work.run.output / PREDICTIONS)) if by_item else {})


def _trial(
    search: Search, configuration: Configuration, project: paths.Project, where: Place, number: int | None
) -> tuple[str, FrozenTrial]:
    """The study of the search in params.yaml: its name, and the trial `number`, or the best trial.

    Raises `InputError` if no such trial is complete, or if the stored study has other settings.
    """
    study = stored_study(search, identified(configuration, search, project), where)
    if number is None and (number := chosen_trial(study)) is None:
        equals = ", ".join(str(trial.number) for trial in front(study))
        why = f"no trial of the front stands out: {equals}" if equals else "no complete trial meets all constraints"
        raise InputError(f"search {study.study_name}: {why}; choose: --trial N")
    known = {str(trial.number): trial for trial in study.get_trials(states=(TrialState.COMPLETE,))}
    if str(number) not in known:
        raise InputError(
            f"--trial {number}: no complete trial of search {study.study_name}{nearest(str(number), known)}"
        )
    return study.study_name, known[str(number)]
