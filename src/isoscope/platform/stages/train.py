"""A cell of stage `train@<study>`: own a run while its model is trained, and record it."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from isoscope.base import built_in, paths, processes
from isoscope.base.atomic_files import write_text
from isoscope.base.processes import StoppedError, StopSignal
from isoscope.platform.executor.live_table import Progress
from isoscope.platform.runs.earlier import earlier_run
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.runs.restored import METRICS, OBJECTIVE, read_metrics
from isoscope.platform.stages.training_job import CellJob, carry

SPLITS = ("train", "validation", "test")


def train(work: CellJob, *, output: Path | None, display: Progress | None = None) -> Path:
    """Train a cell, resume it, or find it finished. Return the folder of the result.

    - `output`: where to publish the result; None publishes nothing.
    - `display`: shows the progress, instead of a progress bar.

    Of several processes, the first owns the run and the others only compute. Raises `InputError` on bad input,
    `StoppedError` after a signal, `DivergedError` if the loss is not finite.
    """
    science, run = built_in.load(built_in.STAGES, "train"), work.run
    science.check(work.job)  # a finished run asks for its device, too
    with StopSignal() as stop:
        given: dict[str, Any] = {"folder": run.folder, "stop": lambda: stop.received is not None}
        if processes.rank() > 0:
            try:
                science.assist(work.job, **given)
            except science.InterruptedRunError:
                raise StoppedError(stop.received or signal.SIGTERM, "stopped together with the first process") from None
            return output or run.output

        def do(finished: bool) -> None:
            shown = display or science.Progressbar(run.identity.title)
            try:
                made = science.train(work.job, book=_Book(work), display=shown, finished=finished, **given)
            except science.InterruptedRunError as interrupted:
                line = f"{run.identity.title}: {interrupted}; run the same command to resume"
                raise StoppedError(stop.received or signal.SIGTERM, line) from None
            if made is not None:
                _complete(work, made, output)
            elif display is None:
                print(f"{run.identity.title} ({run.digest[:12]}): found finished, nothing trained", file=sys.stderr)

        folder = carry(work, do, stop=stop, output=output)
    assert folder is not None
    return folder


class _Book:
    """The record of a run, as training keeps it."""

    def __init__(self, work: CellJob) -> None:
        self.work, self.run, self.metric = work, work.run, work.run.record.metric

    def begin(self, **environment: Any) -> list[str]:
        """Begin an attempt with its data sets. Return why it does not continue an earlier run, if it does not."""
        run, work = self.run, self.work
        line = None if run.states.is_dir() else earlier_run(run)
        run.begin(**environment)
        for name in SPLITS:
            file = f"{name}.parquet"
            run.record.dataset(
                f"{work.task}/{name}",
                context="training" if name == "train" else name,
                digest=dvc_md5(work.job.data / file),
                path=(paths.processed(work.task) / file).as_posix(),
                rows=pq.read_metadata(work.job.data / file).num_rows,
            )
        return [line] if line else []

    def resumed(self) -> None:
        """Give the record the points of the resumed state that it lacks."""
        self.run.mend(read_metrics(self.run.work), source=METRICS)


def _complete(work: CellJob, made: Any, output: Path | None) -> None:
    """Record the checkpoints of a trained model, and complete its run."""
    run = work.run
    declared = [one.recorded for one in (*made.objective.metrics, *getattr(made.objective, "generated", ()))]
    write_text(run.work / OBJECTIVE, json.dumps({"metrics": declared}, indent=1) + "\n", "table")
    where = run.name_of(output or run.output)
    points = made.points.read()
    for epoch, folder in made.keeper.kept():
        run.record.checkpoint(
            f"{run.digest[:12]}-epoch-{epoch}",
            epoch=epoch,
            step=min(epoch * made.per_epoch, made.total),
            path=f"{where}/checkpoints/{folder.name}",
            md5=dvc_md5(folder, leave_out={"manifest.json"}),
            metrics={point["name"]: point["value"] for point in points if point["epoch"] == epoch},
        )
    run.complete()
