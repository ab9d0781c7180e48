"""All cells of a study: those finished before are found and published, the others done side by side."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from isoscope import paths
from isoscope.executor.local import Piece, side_by_side
from isoscope.executor.progress import Progress
from isoscope.guard import StoppedError, StopSignal
from isoscope.stages.mirror import following_here


class CellWork(NamedTuple):
    """A cell of a study for the executor.

    `find`: publishes it where it is finished, and says where; None where it is not. `do`: does it, showing how far it
    is; called in a process of its own.
    """

    name: str
    find: Callable[[StopSignal], Path | None]
    do: Callable[[Progress], None]


def carry_out_all(
    cells: Sequence[CellWork],
    *,
    title: str,
    project: paths.Project,
    prepare: Callable[[], None],
    workers: int,
) -> None:
    """Publish what is finished and do the rest, `workers` at once; `prepare` imports what that takes, once for all.

    Raises `RunError` that names the cells that failed, and `StoppedError` after a signal.
    """
    with following_here(project), StopSignal() as stop:
        rest = []
        for number, cell in enumerate(cells):
            if stop.received is not None:
                raise StoppedError(stop.received, f"{title}: stopped at cell {number + 1} of {len(cells)}")
            if cell.find(stop) is None:
                rest.append(cell)
        if not rest:
            return
        prepare()
        pieces = [Piece(cell.name, cell.do) for cell in rest]
        side_by_side(pieces, title=title, workers=workers, stop=stop, found=len(cells) - len(rest))
