"""Carry out all cells of a study: publish finished cells, and run the others in parallel."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from isoscope import paths
from isoscope.errors import RunError
from isoscope.executor.cluster import Cluster, connected
from isoscope.executor.execute import Piece, room, side_by_side
from isoscope.executor.live_table import Progress
from isoscope.guard import StopSignal
from isoscope.runs.lease import HeldError
from isoscope.stages.mirror import following_here

_WAIT, _PATIENCE = 1.0, 180.0  # seconds between polls, and until waiting for a lost machine's lease or file ends


class CellWork(NamedTuple):
    """A cell of a study for the executor.

    `find`: publishes a finished cell and returns its folder; returns None if the cell is not finished. `do`: carries
    out the cell in its own process, perhaps on another node, and returns its folder.
    """

    name: str
    find: Callable[[StopSignal], Path | None]
    do: Callable[[Progress], str]


class Runs(NamedTuple):
    """How runs are executed: threads and device of a run, runs at a time (None: as many as fit), cluster."""

    threads: int | None
    device: str
    workers: int | None
    cluster: Cluster | None


def carry_out_all(
    cells: Sequence[CellWork],
    *,
    title: str,
    project: paths.Project,
    runs: Runs,
    prepare: Callable[[], object] = lambda: None,
) -> list[Path]:
    """Publish finished cells and carry out the others. Return the folder of each cell.

    `prepare` imports what local processes share. Raises `RunError` that names failed cells, and `StoppedError` after a
    signal.
    """
    with following_here(project), StopSignal() as stop, ExitStack() as stack:
        folders: dict[str, Path] = {}
        rest = []
        for number, cell in enumerate(cells):
            stop.check(f"{title}: stopped at cell {number + 1} of {len(cells)}; run the same command to resume")
            if (folder := cell.find(stop)) is None:
                rest.append(Piece(cell.name, partial(_when_free, cell.do)))
            else:
                folders[cell.name] = folder
        if rest:
            nodes, workers = None, runs.workers or room(runs.threads, device=runs.device)
            if runs.cluster is not None:
                nodes = stack.enter_context(connected(runs.cluster.sized(runs.threads, device=runs.device)))
                workers = runs.workers or len(rest)  # Ray queues workers until there is room
            else:
                prepare()
            done = side_by_side(rest, title=title, workers=workers, stop=stop, found=len(folders), nodes=nodes)
            folders |= {name: Path(folder) for name, folder in done.items()}
        for folder in folders.values():
            _check_visible(folder)
        return [folders[cell.name] for cell in cells]


def _check_visible(folder: Path) -> None:
    """Wait until a shared file system shows what another node wrote."""
    deadline = time.monotonic() + _PATIENCE
    while not folder.is_dir():
        if time.monotonic() > deadline:
            raise RunError(f"{folder}: not visible on this machine; all nodes must share the project's file system")
        time.sleep(_WAIT)


def _when_free(do: Callable[[Progress], str], shown: Progress) -> str:
    """Carry out a cell once its lease is free: the process of a lost node may still be saving its state."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return do(shown)
        except HeldError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_WAIT)
