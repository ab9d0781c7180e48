"""Training runs of a trial: ordinary runs, with the same digest as the same choices given by hand."""

import json
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
from isoscope.platform.runs.durations import epochs_of
from isoscope.platform.runs.lines import SEARCH
from isoscope.platform.runs.output_files import best_epoch, read_metrics
from isoscope.platform.runs.record import Tail
from isoscope.platform.runs.stored import output_fault, stored_points
from isoscope.platform.search.study import identity
from isoscope.platform.stages.study_cells import Setup, visible, when_free
from isoscope.platform.stages.train import SECTIONS, CellJob, job, train


class TrainingRun:
    """A training run as a job of a trial."""

    def __init__(
        self,
        work: CellJob,
        search: Search,
        do: Callable[[Progress], str] | None = None,
        arguments: tuple[str, ...] = (),
    ) -> None:
        """`do`: runs it on another node; None: `run`. `arguments`: see `Piece`."""
        self.work, self.search, self.at, self.do = work, search, search.at, do or self.run
        self.arguments = arguments
        self.objective = next(iter(search.objectives))
        self.digest = work.run.digest
        self.steps = epochs_of(flatten(work.run.identity.params), work.job.manifest["splits"]["train"])
        self._tail = Tail(work.run.project.records / f"{self.digest}.jsonl")
        self._read, self._reports = 0, list[tuple[int, float]]()

    def done(self) -> bool:
        """Whether it is trained already, and its output intact."""
        return output_fault(self.work.run.project, self.digest) is None

    def run(self, display: Progress | None = None) -> str:
        """Train or resume it; if another process holds the run, wait for its end."""
        folder = when_free(partial(train, output=None, display=display), self.work)
        check_directions(self.search, recorded_metrics(folder))  # also of a plugin
        return str(folder)

    def reports(self) -> list[tuple[int, float]]:
        """The objective after each epoch so far."""
        if self._tail.path.exists():
            self._tail.poll()
            points = self._tail.record.metrics[self._read :]
            self._read += len(points)
            mine = (point for point in points if point.name == self.objective and point.epoch)
            self._reports += [(point.epoch or 0, point.value) for point in mine]
        return self._reports

    def metrics(self) -> dict[str, float]:
        """Every metric at the epoch that counts, or at its last step if it has no epoch."""
        return _at(self.at, read_metrics(visible(self.work.run.output)))

    def stored(self) -> dict[str, float] | None:
        """The same metrics of a finished run, wherever an intact copy of it is; None if there is none."""
        points = stored_points(self.work.run.project, self.digest)
        return None if points is None else _at(self.at, points)


def _at(epoch: str, points: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return each metric at the `best` or `last` epoch."""
    last = {point["name"]: point["value"] for point in sorted(points, key=lambda point: point["step"])}
    if epoch == "last":
        return last
    chosen = best_epoch(points)
    return last | {point["name"]: point["value"] for point in points if point["epoch"] == chosen}


def plan(
    configuration: Configuration,
    search: Search,
    project: paths.Project,
    *,
    data: str | None = None,
    setup: Setup | None = None,
    words: Sequence[str] = (),
) -> Callable[..., Sequence[TrainingRun]]:
    """A function from choices to training runs, one per seed (default: the seeds of the search).

    `data`: hash of the search's data; the function raises `InputError` for other data. `setup`: what another node needs
    to run them; None: they run here. `words`: of a job's command (`Setup.words`).
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
                    "their data; put the data back, or begin another search: isoscope search run --fork"
                )
            work.run.tags[SEARCH] = f"search-{search.name}"
        there = [partial(run_there, setup, dict(chosen), seed, data) if setup else None for seed in seeds]
        told = ("search", "trial", "--choices", json.dumps(dict(chosen)), *(("--data", data) if data else ()))
        arguments = [(*told, "--seed", str(seed), *words) if words else () for seed in seeds]
        return [
            TrainingRun(work, search, *how) for work, how in zip(works, zip(there, arguments, strict=True), strict=True)
        ]

    return runs


def run_there(
    setup: Setup, chosen: Mapping[str, Any], seed: int, data: str | None, display: Progress | None = None
) -> str:
    """Run one of a trial's training runs on another node."""
    search = setup.configuration.root.search
    assert search is not None
    (run,) = plan(setup.configuration, search, setup.project, data=data)(chosen, [seed])
    return run.run(display)


def identified(configuration: Configuration, search: Search, project: paths.Project) -> dict[str, Any]:
    """The identity of this search."""
    found = configuration.cell(search.study, search.arm, {}, search.settings)
    axes = {name: one.choices for name, one in search.space.items() if "." not in name}
    files = [paths.overlay(axis, str(value)) for axis, values in axes.items() for value in values]
    runs = plan(configuration, search, project)
    of_corners = [runs(chosen)[0].work.run for chosen in ({}, *corners(search))]  # {}: the default arm
    return identity(
        search,
        fixed={section: found.tree[section] for section in SECTIONS},
        overlays={file.as_posix(): flatten(configuration.overlay(file)) for file in files},
        inputs=of_corners[0].identity.inputs,
        code=" ".join(sorted({run.code for run in of_corners})),
        plugins={file: code for run in of_corners for file, code in run.identity.plugins.items()},
    )
