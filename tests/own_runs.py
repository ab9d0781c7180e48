"""A run of a project in a temporary folder: made, carried out, published."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from isoscope.base.paths import Project
from isoscope.base.processes import StopSignal
from isoscope.platform.runs.identity import Identity
from isoscope.platform.runs.run import Run, tracked

NAMES = {"study": "fusion", "arm": "additive", "seed": 0, "task": "words", "axes": {"fusion": "additive"}}
NOTHING: dict[str, Any] = {"params": {}, "inputs": {}, "input_paths": {}, "plugins": {}}


def make(folder: Path, stage: str = "train", **about: Any) -> Run:
    """A run that has not begun."""
    return Run(Project(folder, folder), Identity(stage, **{**NAMES, **NOTHING, **about}))


def finish(run: Run, write: Callable[[Path], object]) -> Run:
    """Carry it out; `write` fills the folder of its work."""
    with StopSignal() as stop, tracked(run, stop):
        run.begin(device="cpu", threads=1, precision="fp32")
        run.work.mkdir(parents=True)
        write(run.work)
        run.complete()
    return run


def publish(run: Run, target: Path) -> Path:
    """Publish a finished run as another process does."""
    with StopSignal() as stop, tracked(one := Run(run.project, run.identity), stop):
        one.finished_as(target, one.publish(target))
    return target
