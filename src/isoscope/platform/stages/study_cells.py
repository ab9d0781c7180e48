"""Carry out the cells of a study: publish finished cells, and run the others in parallel, perhaps on other nodes."""

import hashlib
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property, partial
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from isoscope.base import code_closure, paths
from isoscope.base.atomic_files import write_text
from isoscope.base.built_in import STAGES
from isoscope.base.environment import load
from isoscope.base.errors import InputError, RunError
from isoscope.base.processes import StopSignal
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.tree import dump_yaml, read_yaml
from isoscope.platform.executor.execute import Piece, side_by_side
from isoscope.platform.executor.live_table import Progress
from isoscope.platform.executor.placement import SLURM, Placement
from isoscope.platform.executor.slurm import Slurm
from isoscope.platform.runs.locks import HeldError, Lease
from isoscope.platform.runs.run import Run
from isoscope.platform.runs.stored import output_fault
from isoscope.platform.stages.mirror import following
from isoscope.platform.stages.train import CellJob, carry, job, train

_WAIT, PATIENCE = 1.0, 180.0  # seconds between polls, and until waiting for a lost machine's lease or file ends


class Setup:
    """A project, its configuration, and the stage that works with them.

    Only plain values travel to another node, which needs the project at the same path.
    """

    def __init__(self, configuration: Configuration, project: paths.Project, stage: str) -> None:
        self.project, self.stage, self.configuration = project, stage, configuration

    def __getstate__(self) -> dict[str, Any]:
        return {
            "project": self.project,
            "stage": self.stage,
            "params": self.configuration.raw,  # current content of params.yaml
            "given": self.configuration.given,
            "plugins": [path.resolve() for path in self.configuration.extra_plugins],
            "code": code_closure.code_version(self.stage),
        }

    @cached_property
    def configuration(self) -> Configuration:
        """The configuration. Raises `InputError` if the project is missing here, or has other code or overlays."""
        here, state, folder = f"node {socket.gethostname()}", self.__dict__, self.project.folder
        if not (folder / paths.PARAMS).is_file():
            raise InputError(
                f"{here}: no project at {folder}; all nodes need it at the same path, as on a shared file system"
            )
        if state["code"] != code_closure.code_version(self.stage):
            raise InputError(f"{here}: its isoscope has other code; install the same version on all nodes")
        try:
            return Configuration(folder, state["given"], state["plugins"], raw=state["params"])
        except InputError as error:
            raise InputError(f"{here}: {error}") from None

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The last words of a command that works as a job with this setup, which is written to a file."""
        state = self.__getstate__() | {"given": [*self.configuration.given], "project": [*map(str, self.project)]}
        state["plugins"] = [*map(str, state["plugins"])]
        text = dump_yaml(state)
        file = self.project.slurm / f"setup-{hashlib.sha256(text.encode()).hexdigest()[:16]}.yaml"
        write_text(file, text, "note", shared=True)
        changes = [*(("-S", one) for one in state["given"]), *(("--plugin", one) for one in state["plugins"])]
        return (*(word for pair in changes for word in pair), "--setup", str(file), "--json")


def handed_over(file: Path) -> tuple[paths.Project, Configuration]:
    """Return project and configuration of the command whose job this process is, from a file that `words` name.

    Raises `InputError` as `Setup.configuration` does.
    """
    state, found = read_yaml(file.parent, Path(file.name)), Setup.__new__(Setup)
    state["plugins"] = [*map(Path, state["plugins"])]
    found.__dict__.update(state | {"project": paths.Project(*map(Path, state["project"]))})
    return found.project, found.configuration


class CellWork(NamedTuple):
    """A cell of a study for the executor.

    `find(stop=…)`: publishes a finished cell and returns its folder; None if the cell is not finished. `do`: carries
    out the cell in its own process, perhaps on another node, and returns its folder. `arguments`: see `Piece`.
    """

    name: str
    find: Callable[..., Path | None]
    do: Callable[[Progress], str]
    arguments: tuple[str, ...]


def carry_out_all(
    cells: Sequence[CellWork],
    *,
    title: str,
    project: paths.Project,
    threads: int | None,
    device: str,
    workers: int | None,
    placement: Placement,
    science: Sequence[str] = ("train",),
    key: str = "training.device",
) -> list[Path]:
    """Publish finished cells and carry out the others. Return the folder of each cell, unless its job is `detached`.

    `threads` and `device`: of a run. `workers`: most runs at a time; None: as many as fit. `science`: the cells' runs,
    whose libraries local processes share. `key`: name of the setting `device`. Raises `RunError` that names failed
    cells, `InputError` for a device that this machine lacks, and `StoppedError` after a signal.
    """
    # The device is checked also if all cells are finished.
    place = placement.room_for(threads, device, project=project, stage=science[0], key=key)
    with following(project), StopSignal() as stop, ExitStack() as stack:
        folders: dict[str, Path] = {}
        rest = []
        for number, cell in enumerate(cells):
            stop.check(f"{title}: stopped at cell {number + 1} of {len(cells)}; run the same command to resume")
            folder = None
            with suppress(*([HeldError] if placement.cluster == SLURM else [])):  # by a job submitted earlier
                folder = cell.find(stop=stop)
            if folder is None:
                # The process of a lost node may still be saving its state.
                rest.append(Piece(cell.name, partial(when_free, cell.do, patience=PATIENCE), cell.arguments))
            else:
                folders[cell.name] = folder
        if rest:
            if placement.cluster is None:
                for one in science:
                    load(STAGES[one])
            opened = stack.enter_context(place)
            if placement.detached is not None and isinstance(opened, Slurm):
                placement.detached.extend(opened.detach(rest))
                return [*folders.values()]
            done = side_by_side(rest, title=title, workers=workers, stop=stop, found=len(folders), place=opened)
            folders |= {name: Path(folder) for name, folder in done.items()}
        return [visible(folders[cell.name]) for cell in cells]


def visible(folder: Path) -> Path:
    """Return a folder that another node wrote, once a shared file system shows it. Raises `RunError` if it does not."""
    deadline = time.monotonic() + PATIENCE
    while not folder.is_dir():
        if time.monotonic() > deadline:
            raise RunError(f"{folder}: not visible on this machine; all nodes must share the project's file system")
        time.sleep(_WAIT)
    return folder


def when_free(do: Callable[..., Any], *given: Any, patience: float = inf) -> Any:
    """Carry out a run once its lease is free; wait `patience` seconds for the process that holds it."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return do(*given)
        except HeldError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_WAIT)


def training_job(setup: Setup, study: str, arm: str, seed: int) -> CellJob:
    """Return the job of training a cell."""
    configuration = setup.configuration
    return job(configuration, configuration.cell(study, arm), (study, arm, seed), setup.project)


def place(setup: Setup, where: Callable[[str, str, int], Path], study: str, arm: str, seed: int) -> Path | None:
    """Return where the pipeline expects a cell; None for another experiment (`-S`, a plugin, another seed)."""
    configuration = setup.configuration
    other = configuration.overrides or configuration.extra_plugins or seed not in configuration.study(study).seeds
    return None if other else setup.project.folder / where(study, arm, seed)


def intact(run: Run) -> bool:
    """Return whether a run is finished; own it only to restore it, because other processes look at the same time."""
    if output_fault(run.project, run.digest) is None:
        return True
    with Lease(run.folder, title=run.identity.title):
        return run.finished


def train_starts(setup: Setup, cells: Iterable[tuple[str, str, int]], **options: Any) -> None:
    """Train the runs that unfinished cells start from, and before them those that they start from.

    A finished run is a start only if its output is intact; it is restored, or trained again.
    They are not published: their own study does that. `options` of `carry_out_all`.
    """
    works = [work for cell in cells if (work := training_job(setup, *cell)).starts]
    starts = {start.run.digest: start for work in works if not intact(work.run) for start in work.starts.values()}
    wanted = [start.cell for start in starts.values() if not intact(start.run)]
    if wanted:
        plain = Setup(setup.configuration.without_overrides(), setup.project, "train")
        train_starts(plain, wanted, **options)
        train_cells(plain, wanted, None, publish=False, **options)


def train_cells(
    setup: Setup, cells: Iterable[tuple[str, str, int]], output: Path | None, *, publish: bool = True, **options: Any
) -> list[Path]:
    """Train cells as `carry_out_all` does, with threads and device of the most demanding run; return their folders.

    `output`: where to publish the result of a single cell. `publish` False: results stay in the store of runs.
    """
    found, needs = [], set[tuple[int | None, str]]()
    for cell in cells:
        work = training_job(setup, *cell)
        needs.add((work.job.parts.training.threads, work.job.parts.training.device))
        target = output or (place(setup, paths.trained, *cell) if publish else None)
        do = partial(_train, setup, cell, target)
        where = ("--out", str(output.resolve())) if output else () if publish else ("--unpublished",)
        job = setup.words if options["placement"].cluster == SLURM else ()
        words = ("train", *cell[:2], "--seed", str(cell[2]), *where, *job)
        found.append(CellWork(work.run.identity.title, partial(carry, work, None, output=target), do, words))
    threads, device = max(needs, key=lambda one: (one[1] != "cpu", one[0] or inf), default=(None, "cpu"))
    return carry_out_all(found, project=setup.project, threads=threads, device=device, **options)


def _train(setup: Setup, which: tuple[str, str, int], output: Path | None, shown: Progress) -> str:
    return str(train(training_job(setup, *which), output=output, display=shown))


def states_cells(
    setup: Setup, cells: Iterable[tuple[str, str, int]], *, title: str, workers: int | None, placement: Placement
) -> list[Path]:
    """Carry out cells of `states` as `carry_out_all` does; return the folders of their tables."""
    root = setup.configuration.root
    words = setup.words if placement.cluster == SLURM else ()
    devices = {"extraction.device": root.extraction.device, "measures.device": root.measures.device}
    key = max(devices, key=lambda one: ("cpu", "auto", "cuda").index(devices[one]))
    on_cores = placement.cluster is None and devices[key] == "cpu"
    found = [
        CellWork(
            f"{cell[1]} seed {cell[2]}",
            partial(states, setup, cell, find=True),
            partial(_states, setup, cell),
            ("states", *cell[:2], "--seed", str(cell[2]), *words),
        )
        for cell in cells
    ]
    return carry_out_all(
        found,
        title=title,
        project=setup.project,
        threads=max(filter(None, (root.extraction.threads, root.measures.threads)), default=None),
        device=devices[key],
        workers=workers or (root.measures.processes if on_cores else None),
        placement=placement,
        science=("extract", "measure"),
        key=key,
    )


def states(setup: Setup, cell: tuple[str, str, int], *, processes: int | None = None, **options: Any) -> Path | None:
    """Carry out a cell of `states`, with `options` of its `Cell`; return the folder of its tables."""
    # By name: it is no part of a search, which imports this module.
    stage, root = import_module("isoscope.platform.stages.states"), setup.configuration.root
    task, publish = root.studies[cell[0]].task, place(setup, paths.measured, *cell) is not None
    one = stage.Cell(*cell, task, setup.project, publish, **options)
    done: Path | None = stage.states(root.extraction, root.measures, one, processes=processes)
    return done


def _states(setup: Setup, cell: tuple[str, str, int], shown: Progress) -> str:
    with _Measured(shown) as stop:
        return str(states(setup, cell, processes=1, stop=stop))


class _Measured(StopSignal):
    """Between the parts of its work, a process is asked to stop, and its memory is measured."""

    def __init__(self, shown: Progress) -> None:
        super().__init__()
        self.shown = shown

    def check(self, message: str) -> None:
        self.shown.measure()
        super().check(message)
