"""A cell of stage `train@<study>`: train a model, keep it, and score it once on the test split."""

import json
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from accelerate import Accelerator

from isoscope import plugins
from isoscope.base import code_closure, paths, processes
from isoscope.base.atomic_files import write_text
from isoscope.base.errors import InputError, brief, plugins_named
from isoscope.base.processes import StoppedError, StopSignal
from isoscope.data.corpus import SPLITS
from isoscope.models.build import check_device, warn_of_emulation
from isoscope.objectives import Objective, Task
from isoscope.platform.config.training import Training
from isoscope.platform.executor.live_table import Progress
from isoscope.platform.runs.earlier import earlier_run
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.runs.restored import METRICS, OBJECTIVE, read_metrics
from isoscope.platform.stages.training_job import Job, carry
from isoscope.training.display import Display, Log, Mute, Progressbar
from isoscope.training.keeping import Keeper
from isoscope.training.loop import Loop
from isoscope.training.observers import FusionMoved, Observer
from isoscope.training.penalised import penalised
from isoscope.training.progress import InterruptedRunError, Trace
from isoscope.training.ranks import Ranks, in_one_line, make_accelerator
from isoscope.training.without_effect import without_effect


def train(work: Job, *, output: Path | None, display: Progress | None = None) -> Path:
    """Train a cell, resume it, or find it finished. Return the folder of the result.

    - `output`: where to publish the result; None publishes nothing.
    - `display`: shows the progress, instead of a progress bar.

    Of several processes, the first owns the run and the others only compute. Raises `InputError` on bad input,
    `StoppedError` after a signal, `DivergedError` if the loss is not finite.
    """
    check_device(work.parts.training.device, key="training.device")  # a finished run asks for it, too
    with StopSignal() as stop:
        if processes.rank() > 0:
            with in_one_line():
                _assist(work, stop)
            return output or work.run.output

        def do(finished: bool) -> None:
            with in_one_line():
                if processes.world_size() > 1:
                    Ranks(_accelerator(work)).from_main(finished)
                if not finished:
                    _train(work, output, stop, display or Progressbar(work.run.identity.title))
                elif display is None:
                    title = f"{work.run.identity.title} ({work.run.digest[:12]})"
                    print(f"{title}: found finished, nothing trained", file=sys.stderr)

        folder = carry(work, do, stop=stop, output=output)
    assert folder is not None
    return folder


def rehearse(work: Job, updates: int) -> Trace:
    """Return the golden trace of a run under the current code: its first updates; nothing is kept."""
    check_device(work.parts.training.device, key="training.device")
    with tempfile.TemporaryDirectory() as folder, in_one_line():
        loop = _loop(work, _accelerator(work), Mute(), Mute(), lambda: False, folder=Path(folder))
        return loop.rehearse(updates)


def _train(work: Job, output: Path | None, stop: StopSignal, display: Progressbar | Progress) -> None:
    """Train, score and complete a run, as its only process or as the first of several."""
    run, training = work.run, work.parts.training
    accelerator = _accelerator(work)
    warn_of_emulation(training.precision, device=accelerator.device.type, key="training.precision")
    if not run.states.is_dir() and (line := earlier_run(run)):
        display.note(line)
    run.begin(
        device=str(accelerator.device),
        threads=torch.get_num_threads(),
        processes=accelerator.num_processes,
        precision=training.precision,
    )
    for name in SPLITS:
        file = f"{name}.parquet"
        run.record.dataset(
            f"{work.task}/{name}",
            context="training" if name == "train" else name,
            digest=dvc_md5(work.data / file),
            path=(paths.processed(work.task) / file).as_posix(),
            rows=pq.read_metadata(work.data / file).num_rows,
        )
    loop = _loop(work, accelerator, run.record, display, lambda: stop.received is not None, folder=run.folder)
    sizes = {"rows": loop.objective.size("train"), "per_epoch": loop.per_epoch, "total": loop.total}
    for line in (*loop.objective.notes, *without_effect(training, **sizes)):
        display.note(line)
    run.mend(read_metrics(run.work), source=METRICS)
    display.begin(loop.progress.step, loop.total)
    try:
        epoch = loop.fit()
    except InterruptedRunError:
        signum = stop.received or signal.SIGTERM  # another process of the run got the signal
        raise StoppedError(
            signum,
            f"{run.identity.title}: stopped at step {loop.progress.step}/{loop.total}; run the same command to resume",
        ) from None
    finally:
        display.close()
    loop.test(epoch)
    if work.parts.objective.kind not in code_closure.OBJECTIVES:
        declared = json.dumps({"metrics": dict(loop.objective.metrics)}, indent=1) + "\n"
        write_text(run.work / OBJECTIVE, declared, "table")
    assert loop.points is not None
    points, where = loop.points.read(), run.name_of(output or run.output)
    for epoch, folder in loop.keeper.kept():
        run.record.checkpoint(
            f"{run.digest[:12]}-epoch-{epoch}",
            epoch=epoch,
            step=min(epoch * loop.per_epoch, loop.total),
            path=f"{where}/checkpoints/{folder.name}",
            md5=dvc_md5(folder, leave_out={"manifest.json"}),
            metrics={point["name"]: point["value"] for point in points if point["epoch"] == epoch},
        )
    run.complete()


def _assist(work: Job, stop: StopSignal) -> None:
    """Compute the share of a process other than the first; write nothing."""
    accelerator = _accelerator(work)
    if Ranks(accelerator).from_main(0):  # finished before
        return
    loop = _loop(work, accelerator, Mute(), Mute(), lambda: stop.received is not None, folder=work.run.folder)
    try:
        epoch = loop.fit()
    except InterruptedRunError:
        raise StoppedError(stop.received or signal.SIGTERM, "stopped together with the first process") from None
    loop.test(epoch)


def _loop(
    work: Job, accelerator: Accelerator, log: Log, display: Display, stop: Callable[[], bool], *, folder: Path
) -> Loop:
    """Make the training loop of a process; it works in `folder`."""
    model, training, asked = work.parts.model, work.parts.training, work.parts.objective
    task = Task(
        folder=work.data,
        manifest=work.manifest,
        tokenizer=work.tokenizer,
        max_length=model.max_length,
        fraction=training.fraction,
        batch_size=training.batch_size,
        bucket=training.bucket,
        seed=work.seed,
    )
    with plugins_named():
        built_in = asked.kind in code_closure.OBJECTIVES
        make = (
            code_closure.load(code_closure.OBJECTIVES, asked.kind).objective
            if built_in
            else plugins.OBJECTIVES[asked.kind].factory
        )
        objective: Objective = make(task=task, **asked.model_dump(exclude={"kind"}))
    if training.select not in objective.metrics:
        raise InputError(
            f"training.select: the objective has no metric {training.select!r}; it has {', '.join(objective.metrics)}"
        )
    parts = {"encoder": model.encoder.model_dump(), "fusion": model.fusion.model_dump(mode="json")}
    start = work.checkpoint
    if work.starts:
        start = code_closure.load(code_closure.STARTS, model.encoder.kind).starting_point(
            work, folder / "start", Ranks(accelerator)
        )
    built = objective.build(parts, start)
    work.run.inputs.check()  # `complete` checks them again: checkpoints take their tokenizer from the data
    for one in work.starts.values():
        code_closure.load(code_closure.STARTS, model.encoder.kind).selected(one)  # still intact, after they were read
    return Loop(
        built,
        objective,
        settings=training,
        seed=work.seed,
        accelerator=accelerator,
        penalised=penalised(work.parts.penalty, classes=objective.classes, seed=work.seed),
        observers=observers_of(training, work.parts.observers),
        work=folder / "work",
        states=folder / "states",
        keeper=Keeper(folder / "work", keep=training.keep, tokenizer=work.tokenizer, max_length=model.max_length),
        log=log,
        display=display,
        stop=stop,
    )


def observers_of(training: Training, own: Mapping[str, Any]) -> list[Observer]:
    """Return the observers of a run, in the order of their metrics: built-in, then those of plugins by name."""
    asked = [(name, settings) for name in code_closure.OBSERVERS if (settings := getattr(training, name)) is not None]
    found: list[Observer] = [
        code_closure.load(code_closure.OBSERVERS, name).observer(settings) for name, settings in asked
    ]
    found.append(FusionMoved())
    for name, settings in own.items():
        with plugins_named():
            made = plugins.OBSERVERS[settings.kind].factory(**settings.model_dump(exclude={"kind"}))
        if not isinstance(made, Observer):
            raise InputError(f"observers.{name}: its plugin returns {brief(made)}, expected an Observer")
        made.name = name
        found.append(made)
    return found


def _accelerator(work: Job) -> Accelerator:
    training, fusion = work.parts.training, work.parts.model.fusion
    # An update may leave parameters unused under a plugin, without token types, and in frozen first epochs.
    unused = (
        training.freeze.epochs > 0 or bool(work.run.identity.plugins) or getattr(fusion, "token_type", "add") != "add"
    )
    return make_accelerator(training, unused=unused)
