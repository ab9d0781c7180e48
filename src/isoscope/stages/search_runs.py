"""Training runs of a trial: ordinary runs, with the same digest as the same choices given by hand."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from isoscope import paths
from isoscope.config.load import Configuration
from isoscope.config.searching import Search, corners
from isoscope.config.tree import flatten
from isoscope.executor.live_table import Progress
from isoscope.runs.field_checks import SEARCH
from isoscope.runs.follower import FOLLOWED
from isoscope.runs.record import Tail
from isoscope.runs.restored import read_metrics
from isoscope.search.study import identity
from isoscope.stages.study_cells import when_free
from isoscope.stages.train import train
from isoscope.stages.training_job import SECTIONS, Job, job


class TrainingRun:
    """A training run as a job of a trial."""

    def __init__(self, work: Job, *, objective: str, at: str) -> None:
        self.work, self.objective, self.at = work, objective, at
        self.digest = work.run.digest
        self.steps = work.parts.training.epochs
        self._tail = Tail(work.run.project.records / f"{self.digest}.jsonl")

    def done(self) -> bool:
        """Whether it is trained already."""
        return self.work.run.output.is_dir()

    def run(self, display: Progress | None = None) -> str:
        """Train or resume it; if another process holds the run, wait for its end."""
        os.environ[FOLLOWED] = "1"  # the search command mirrors all records
        return str(when_free(partial(train, output=None, display=display), self.work))

    def reports(self) -> list[tuple[int, float]]:
        """The objective after each epoch so far."""
        if not self._tail.path.exists():
            return []
        self._tail.poll()
        points = [point for point in self._tail.record.metrics if point.name == self.objective]
        return [(point.epoch, point.value) for point in points if point.epoch]

    def metrics(self) -> dict[str, float]:
        """Every metric at the epoch that counts, or at its last step if it has no epoch."""
        points = read_metrics(self.work.run.output)
        last = {point["name"]: point["value"] for point in sorted(points, key=lambda point: point["step"])}
        if self.at == "last":
            return last
        chosen = int(last["training/best_epoch"])
        return last | {point["name"]: point["value"] for point in points if point["epoch"] == chosen}


def plan(configuration: Configuration, search: Search, project: paths.Project) -> Callable[..., Sequence[TrainingRun]]:
    """A function from choices to training runs, one per seed (default: the seeds of the search)."""
    objective = next(iter(search.objectives))

    def runs(chosen: Mapping[str, Any], seeds: Sequence[int] = search.seeds) -> list[TrainingRun]:
        found = configuration.cell(search.study, search.arm, chosen, search.settings)
        arm = "-".join(found.axes.values())
        works = [job(configuration, found, (search.study, arm, seed), project) for seed in seeds]
        for work in works:
            work.run.tags[SEARCH] = f"search-{search.name}"
        return [TrainingRun(work, objective=objective, at=search.at) for work in works]

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
