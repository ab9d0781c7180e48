"""Training runs of a trial: ordinary runs, with the same digest as the same choices given by hand."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from isoscope.base import paths
from isoscope.base.errors import InputError
from isoscope.platform.config.declared import metrics_of
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.searching import Search, check_directions, corners
from isoscope.platform.config.tree import flatten
from isoscope.platform.executor.live_table import Progress
from isoscope.platform.outputs import recorded_metrics
from isoscope.platform.runs.field_checks import SEARCH
from isoscope.platform.runs.follower import FOLLOWED
from isoscope.platform.runs.record import Tail
from isoscope.platform.runs.restored import read_metrics
from isoscope.platform.runs.stored import output_fault, stored_points
from isoscope.platform.search.study import identity
from isoscope.platform.stages.study_cells import when_free
from isoscope.platform.stages.train import train
from isoscope.platform.stages.training_job import SECTIONS, CellJob, job


class TrainingRun:
    """A training run as a job of a trial."""

    def __init__(self, work: CellJob, search: Search) -> None:
        self.work, self.search, self.at = work, search, search.at
        self.objective = next(iter(search.objectives))
        self.digest = work.run.digest
        self.steps = work.job.parts.training.epochs
        self._tail = Tail(work.run.project.records / f"{self.digest}.jsonl")

    def done(self) -> bool:
        """Whether it is trained already, and its output intact."""
        return output_fault(self.work.run.project, self.digest) is None

    def run(self, display: Progress | None = None) -> str:
        """Train or resume it; if another process holds the run, wait for its end."""
        os.environ[FOLLOWED] = "1"  # the search command mirrors all records
        folder = when_free(partial(train, output=None, display=display), self.work)
        check_directions(self.search, recorded_metrics(folder, self.work.job.parts.objective.kind))  # also of a plugin
        return str(folder)

    def reports(self) -> list[tuple[int, float]]:
        """The objective after each epoch so far."""
        if not self._tail.path.exists():
            return []
        self._tail.poll()
        points = [point for point in self._tail.record.metrics if point.name == self.objective]
        return [(point.epoch, point.value) for point in points if point.epoch]

    def metrics(self) -> dict[str, float]:
        """Every metric at the epoch that counts, or at its last step if it has no epoch."""
        return _at(self.at, read_metrics(self.work.run.output))

    def stored(self) -> dict[str, float] | None:
        """The same metrics of a finished run, wherever an intact copy of it is; None if there is none."""
        points = stored_points(self.work.run.project, self.digest)
        return None if points is None else _at(self.at, points)


def _at(epoch: str, points: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return each metric at the `best` or `last` epoch."""
    last = {point["name"]: point["value"] for point in sorted(points, key=lambda point: point["step"])}
    if epoch == "last":
        return last
    chosen = int(last["training/best_epoch"])
    return last | {point["name"]: point["value"] for point in points if point["epoch"] == chosen}


def plan(
    configuration: Configuration, search: Search, project: paths.Project, *, data: str | None = None
) -> Callable[..., Sequence[TrainingRun]]:
    """A function from choices to training runs, one per seed (default: the seeds of the search).

    `data`: hash of the search's data; the function raises `InputError` for other data.
    """

    def runs(chosen: Mapping[str, Any], seeds: Sequence[int] = search.seeds) -> list[TrainingRun]:
        found = configuration.cell(search.study, search.arm, chosen, search.settings)
        check_directions(search, metrics_of(found.cell.objective.kind))
        arm = "-".join(found.axes.values())
        works = [job(configuration, found, (search.study, arm, seed), project) for seed in seeds]
        for work in works:
            if data not in (None, work.run.identity.inputs["data"]):
                raise InputError(
                    f"{paths.processed(work.task)}: has changed since this search began, and its trials must share "
                    "their data; run the same command again: it begins another search, or put the data back"
                )
            work.run.tags[SEARCH] = f"search-{search.name}"
        return [TrainingRun(work, search) for work in works]

    return runs


def identified(configuration: Configuration, search: Search, project: paths.Project) -> dict[str, Any]:
    """The identity of this search."""
    found = configuration.cell(search.study, search.arm, {}, search.settings)
    axes = {name: one.choices for name, one in search.space.items() if "." not in name}
    files = [paths.overlay(axis, str(value)) for axis, values in axes.items() for value in values]
    runs = plan(configuration, search, project)
    of_corners = [runs(chosen)[0].work.run for chosen in corners(search)]
    return identity(
        search,
        fixed={section: found.tree[section] for section in SECTIONS},
        overlays={file.as_posix(): flatten(configuration.overlay(file)) for file in files},
        inputs=runs({})[0].work.run.identity.inputs,
        code=" ".join(sorted({run.code for run in of_corners})),
        plugins={file: code for run in of_corners for file, code in run.identity.plugins.items()},
    )
