"""Make the cells of a study for each command: how to find a finished cell, and how to carry out a missing cell."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from isoscope import paths
from isoscope.executor.execute import room
from isoscope.executor.live_table import Progress
from isoscope.guard import StopSignal
from isoscope.stages.cells import CellWork
from isoscope.stages.setup import Setup
from isoscope.stages.training_job import Cell, Job, carry, job, sections

INSIDE = {"extract": ("extraction", paths.extracted), "measure": ("measures", paths.measured)}
"""Stages that analyse hidden states: their section, and where the pipeline expects a cell."""


def training_cell(setup: Setup, study: str, arm: str, seed: int) -> tuple[Sequence[Any], Cell]:
    """Return the sections of a cell that training needs, and the cell."""
    configuration = setup.configuration
    found = configuration.cell(study, arm)
    digests = configuration.plugin_digests(found.cell)
    return sections(found.cell), Cell(
        study, arm, found.axes, seed, configuration.study(study).task, found.tree, digests
    )


def place(setup: Setup, where: Callable[[str, str, int], Path], study: str, arm: str, seed: int) -> Path | None:
    """Return where the pipeline expects a cell; None for another experiment (`-S`, a plugin, another seed)."""
    configuration = setup.configuration
    other = configuration.overrides or configuration.extra_plugins or seed not in configuration.study(study).seeds
    return None if other else setup.project.folder / where(study, arm, seed)


def training_cells(
    setup: Setup, cells: Iterable[tuple[str, str, int]], output: Path | None
) -> tuple[list[CellWork], tuple[int | None, str]]:
    """Return the cells to train, and threads and device of the most demanding run.

    `output`: where to publish the result of a single cell.
    """
    found, needs = [], set[tuple[int | None, str]]()
    for study, arm, seed in cells:
        parts, cell = training_cell(setup, study, arm, seed)
        work = job(*parts, cell=cell, project=setup.project)
        needs.add((work.training.threads, work.training.device))
        target = output or place(setup, paths.trained, study, arm, seed)
        do = partial(_train, setup, (study, arm, seed), target)
        found.append(CellWork(work.run.identity.title, partial(_find, work, target), do))
    return found, min(needs, key=lambda one: room(one[0], device=one[1]), default=(None, "cpu"))


def _find(work: Job, output: Path | None, stop: StopSignal) -> Path | None:
    return carry(work, None, stop=stop, output=output)


def _train(setup: Setup, which: tuple[str, str, int], output: Path | None, shown: Progress) -> str:
    parts, cell = training_cell(setup, *which)
    return str(stage("train")(*parts, cell=cell, project=setup.project, output=output, display=shown))


def stage(name: str) -> Callable[..., Any]:
    """Return the function of a stage; import its libraries."""
    found: Callable[..., Any] = getattr(import_module(f"isoscope.stages.{name}"), name)
    return found


def inside_cells(setup: Setup, cells: Iterable[tuple[str, str, int]], **more: Any) -> list[CellWork]:
    """Return the cells of `extract` or `measure`; `more`: further arguments of the stage."""
    return [
        CellWork(
            f"{cell[1]} seed {cell[2]}", partial(look, setup, cell, more, find=True), partial(_look, setup, cell, more)
        )
        for cell in cells
    ]


def look(
    setup: Setup, cell: tuple[str, str, int], more: dict[str, Any], stop: StopSignal, *, find: bool = False
) -> Path | None:
    """Carry out a cell of `extract` or `measure`, or only `find` it; return None if it is not done."""
    study, arm, seed = cell
    configuration, (section, where) = setup.configuration, INSIDE[setup.stage]
    done: Path | None = stage(setup.stage)(
        getattr(configuration.root, section),
        configuration.study(study),
        name=study,
        arm=arm,
        seed=seed,
        project=setup.project,
        output=place(setup, where, study, arm, seed),
        stop=stop,
        find=find,
        **more,
    )
    return done


def _look(setup: Setup, cell: tuple[str, str, int], more: dict[str, Any], shown: Progress) -> str:
    with StopSignal() as stop:
        return str(look(setup, cell, more, stop))
