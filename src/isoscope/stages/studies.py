"""What the cells of a study are for each verb: how one is found finished, and how it is done."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from isoscope import paths
from isoscope.executor.local import room
from isoscope.executor.progress import Progress
from isoscope.guard import StopSignal
from isoscope.stages.cells import CellWork
from isoscope.stages.training_job import Cell, Job, carry, job


def training_cells(
    asked: Sequence[tuple[Sequence[Any], Cell, Path | None]], project: paths.Project
) -> tuple[list[CellWork], int]:
    """The cells to train (each its sections, what it is, and where it goes), and how many fit side by side."""
    found, at_once = [], set()
    for sections, cell, output in asked:
        work = job(*sections, cell=cell, project=project)
        do = partial(_train, sections, cell, project, output)
        found.append(CellWork(work.run.identity.title, partial(_find, work, output), do))
        at_once.add(room(work.training.threads, device=work.training.device))
    return found, min(at_once, default=1)


def _find(work: Job, output: Path | None, stop: StopSignal) -> Path | None:
    return carry(work, None, stop=stop, output=output)


def _train(sections: Sequence[Any], cell: Cell, project: paths.Project, output: Path | None, shown: Progress) -> str:
    from isoscope.stages.train import train

    return str(train(*sections, cell=cell, project=project, output=output, display=shown))


def inside_cells(stage: Callable[..., Path | None], cells: Sequence[dict[str, Any]]) -> list[CellWork]:
    """The cells of a `stage` that looks inside models, each by what it is told."""
    return [
        CellWork(f"{one['arm']} seed {one['seed']}", partial(_look, stage, one), partial(_alone, stage, one))
        for one in cells
    ]


def _look(stage: Callable[..., Path | None], told: dict[str, Any], stop: StopSignal) -> Path | None:
    return stage(**told, stop=stop, find=True)


def _alone(stage: Callable[..., Path | None], told: dict[str, Any], shown: Progress) -> str:
    with StopSignal() as stop:
        return str(stage(**told, stop=stop))
