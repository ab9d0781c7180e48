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
    is, in a process of its own, and says where.
    """

    name: str
    find: Callable[[StopSignal], Path | None]
    do: Callable[[Progress], str]


def carry_out_all(
    cells: Sequence[CellWork],
    *,
    title: str,
    project: paths.Project,
    prepare: Callable[[], None],
    workers: int,
) -> list[Path]:
    """Publish what is finished and do the rest, `workers` at once; `prepare` imports what that takes, once for all.

    Returns the folder of each cell.
    Raises `RunError` that names the cells that failed, and `StoppedError` after a signal.
    """
    with following_here(project), StopSignal() as stop:
        folders: dict[str, Path] = {}
        rest = []
        for number, cell in enumerate(cells):
            if stop.received is not None:
                raise StoppedError(stop.received, f"{title}: stopped at cell {number + 1} of {len(cells)}")
            if (folder := cell.find(stop)) is None:
                rest.append(cell)
            else:
                folders[cell.name] = folder
        if rest:
            prepare()
            pieces = [Piece(cell.name, cell.do) for cell in rest]
            done = side_by_side(pieces, title=title, workers=workers, stop=stop, found=len(folders))
            folders |= {name: Path(folder) for name, folder in done.items()}
        return [folders[cell.name] for cell in cells]
