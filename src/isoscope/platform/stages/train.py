"""Stage `train@<study>`: collect what training a cell needs, and own its run while the model is trained."""

import json
import shutil
import signal
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from isoscope import plugins
from isoscope.base import built_in, paths, processes
from isoscope.base.atomic_files import unlisted, write_text
from isoscope.base.errors import InputError
from isoscope.base.processes import StoppedError, StopSignal
from isoscope.platform.config.across_studies import metric_files, start_cells
from isoscope.platform.config.declared import declares
from isoscope.platform.config.load import Configuration, ResolvedCell
from isoscope.platform.config.tree import flatten
from isoscope.platform.executor.live_table import Progress
from isoscope.platform.runs.durations import Estimate, History, like, updates_of
from isoscope.platform.runs.earlier import continued
from isoscope.platform.runs.identity import Identity
from isoscope.platform.runs.output_files import METRICS, OBJECTIVE, best_epoch, read_metrics
from isoscope.platform.runs.prepared import content_md5, read_manifest, target_of
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.runs.run import Run, carry_out
from isoscope.platform.runs.stored import BEGAN, finished, output_fault

SECTIONS = ("model", "objective", "penalty", "observers", "training")
SPLITS = ("train", "validation", "test")


class CellJob(NamedTuple):
    """A cell to train: its run, its task, what the model is trained with, and the cells that it starts from."""

    run: Run
    task: str
    job: Any
    """Its `isoscope.training.given.Job`."""
    starts: "Mapping[str, CellJob]"
    """Runs that training starts from, by their part of the model: `model`, or `encoder` and `decoder`."""

    @property
    def cell(self) -> tuple[str, str, int]:
        """Study, arm and seed."""
        return str(self.run.identity.study), str(self.run.identity.arm), self.job.seed


def job(
    configuration: Configuration,
    found: ResolvedCell,
    cell: tuple[str, str, int],
    project: paths.Project,
    below: Collection[str] = (),
) -> CellJob:
    """Return the job of training a cell (study, arm, seed).

    `found`: its parameters; `below`: studies whose runs start from it. Raises `InputError` if its task is not prepared,
    a checkpoint is missing, a classifier's task has no classes, or if a study starts from itself.
    """
    study, arm, seed = cell
    task = configuration.study(study).task
    if study in below:
        raise InputError(f"model.encoder: study {study!r} starts from itself; name another study")
    plain = configuration.without_overrides()
    starts = {
        name: job(plain, plain.cell(*one[:2]), one, project, {study, *below})
        for name, one in start_cells(configuration, study, found.cell.model, seed).items()
    }
    manifest, given = read_manifest(project, task), built_in.load(built_in.GIVEN, "train")
    found = found.completed(manifest)
    kind, has = found.cell.objective.kind, target_of(manifest)
    if (needs := declares(kind, "TARGET")) not in (None, has):
        raise InputError(
            f"study {study!r}: objective.kind {kind!r} needs a column of the target {needs!r}, but task {task!r} has "
            f"{repr(has) if has else 'none'}; name the column in {paths.overlay('task', task)}: "
            f"data.source.columns.{needs}, or choose another task or objective"
        )
    data = project.folder / paths.processed(task)
    tokenizer, checkpoint = given.start(found.cell.model.encoder, data)
    metrics = metric_files(project.folder, found.cell.training.metrics)

    def read() -> dict[str, str]:
        return {"data": content_md5(data), **given.published(tokenizer, data)}

    # What is kept of a run is in no output, so that nothing depends on it.
    training = {name: value for name, value in found.tree["training"].items() if name != "keep_state"}
    hashes = read()
    by_path = {paths.processed(task).as_posix(): dvc_md5(data)}
    if "checkpoint" in hashes:
        by_path["/".join(tokenizer.parts[-2:])] = hashes["checkpoint"]
    for name, start in starts.items():
        hashes[f"start_{name}"] = by_path[paths.trained(*start.cell).as_posix()] = start.run.digest
    run = Run(
        project,
        Identity(
            stage="train",
            study=study,
            arm=arm,
            seed=seed,
            task=task,
            axes=found.axes,
            params={section: found.tree[section] for section in SECTIONS} | {"training": training},
            inputs=hashes,
            input_paths=by_path,
            plugins=Configuration.plugin_digests(found.cell)
            | {name: plugins.digest(file) for name, file in metrics.items()},
            used=built_in.modules(
                fusion=found.cell.model.fusion.kind,
                objective=found.cell.objective.kind,
                penalty=found.cell.penalty.kind,
                observers=[name for name in built_in.OBSERVERS if getattr(found.cell.training, name) is not None],
                encoder=found.cell.model.encoder.kind,
            ),
        ),
        inputs=read,
    )
    own = given.Job(
        parts=found.cell,
        plugins=bool(run.identity.plugins),
        seed=seed,
        data=data,
        manifest=manifest,
        tokenizer=tokenizer,
        checkpoint=checkpoint,
        starts=lambda: {name: selected(start) for name, start in starts.items()},
        unchanged=run.check_inputs,
        metrics=[str(metrics.get(one, one)) for one in found.cell.training.metrics],
    )
    return CellJob(run, task, own, starts)


def selected(start: CellJob) -> Path:
    """Return the selected checkpoint of a finished run. Raises `InputError` if the run's output is not intact."""
    output, (study, arm, seed) = start.run.output, start.cell
    so = f"so nothing can start from it; run: isoscope train {study} {arm} --seed {seed}"
    if not output.is_dir():
        raise InputError(f"{paths.trained(study, arm, seed)}: not trained, {so}")
    if wrong := output_fault(start.run.project, start.run.digest):
        raise InputError(f"{output}: {wrong}, {so}")
    checkpoint = output / "checkpoints" / f"epoch-{best_epoch(read_metrics(output))}"
    if others := unlisted(output, checkpoint):
        raise InputError(f"{output}: {others[0]} is not of this run, so nothing can start from it; remove the file")
    return checkpoint


def carry(work: CellJob, do: Callable[[bool], None] | None, *, stop: StopSignal, output: Path | None) -> Path | None:
    """Lease a cell's run, `do` it unless it is finished, and publish it (see `carry_out`)."""
    return carry_out(
        work.run,
        do,
        stop=stop,
        output=output,
        points=read_metrics,
        source=METRICS,
        facts=lambda _: {"labels": work.job.manifest.get("labels", [])},
    )


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


def expected(work: CellJob, history: History) -> Estimate | None:
    """Return the estimate for what is left of a cell's training here; None if no recorded run is like it."""
    done = max((int(one.name.removeprefix("step-")) for one in work.run.states.glob("step-*")), default=0)
    params, split, of = flatten(work.run.identity.params), work.job.manifest["splits"]["train"], work.job.parts.training
    where = {"device": None if of.device == "auto" else of.device, "threads": of.threads}
    where["processes"], left = processes.world_size(), max(0, updates_of(params, split) - done)
    return history.estimate(like(work.task, params), left, params, **where)


class _Book:
    """The record of a run, as training keeps it."""

    def __init__(self, work: CellJob) -> None:
        self.work, self.run, self.metric = work, work.run, work.run.record.metric

    def begin(self, **environment: Any) -> list[str]:
        """Begin an attempt with its data sets. Return how a new run continues an earlier run, or why it does not."""
        run, work = self.run, self.work
        if not run.work.is_dir() and finished(run.project, run.digest):  # a kept state relies on the lost output
            shutil.rmtree(run.states, ignore_errors=True)
        line = None if run.states.is_dir() else continued(run)
        run.begin(**environment, estimate=expected(work, History(run.project)))
        for name in SPLITS:
            file = f"{name}.parquet"
            run.record.dataset(
                f"{work.task}/{name}",
                context="training" if name == "train" else name,
                digest=dvc_md5(work.job.data / file),
                path=(paths.processed(work.task) / file).as_posix(),
                rows=work.job.manifest["splits"][name]["rows"],
            )
        return [line] if line else []

    def resumed(self) -> None:
        """Give the record the points of the resumed state that it lacks."""
        points = read_metrics(self.run.work)
        for point in points if (self.run.states / BEGAN).is_file() else ():  # they are in another run's record
            self.metric(**point)
        self.run.mend(points, source=METRICS)


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
    run.complete(keep_state=work.job.parts.training.keep_state)
