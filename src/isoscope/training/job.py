"""Train one model: the model that the settings ask for, its loop, and its score on the test split."""

import json
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from accelerate import Accelerator

from isoscope.base import processes
from isoscope.base.errors import InputError, brief, plugins_named
from isoscope.base.metric import checked
from isoscope.base.registry import OBJECTIVES, OBSERVERS, STARTS
from isoscope.metrics.further import FurtherMetrics
from isoscope.models.build import check_device, warn_of_emulation
from isoscope.models.encoder import bare, causal
from isoscope.objectives import Objective, Task
from isoscope.training.display import Display, Log, Mute
from isoscope.training.display import Progressbar as Progressbar
from isoscope.training.given import Job
from isoscope.training.keeping import Keeper
from isoscope.training.loop import Loop
from isoscope.training.observers import FusionMoved, Observer
from isoscope.training.penalised import penalised
from isoscope.training.progress import TRACE_FILE, Trace, trace_difference
from isoscope.training.progress import InterruptedRunError as InterruptedRunError
from isoscope.training.ranks import Ranks, in_one_line, make_accelerator


class Book(Log, Protocol):
    """What the owner of a run keeps of it."""

    def begin(self, **environment: Any) -> Collection[str]:
        """Record device, threads, processes and precision. Return lines to show."""
        ...

    def resumed(self) -> None:
        """Record the points of the state that training resumes from, if they are missing."""


def check(job: Job) -> None:
    """Raise `InputError` for a device that this machine lacks."""
    check_device(job.parts.training.device, key="training.device")


def train(
    job: Job, *, folder: Path, book: Book, display: Any, stop: Callable[[], bool], finished: bool = False
) -> Loop | None:
    """Train a model, or resume it, in `folder`: `work/` is the result, `states/` what resuming needs.

    Return the loop at its end. Of several processes this is the first; the others call `assist`. `finished`: there is
    nothing to train; tell them, and return None. Raises `InputError` on bad input, `InterruptedRunError` when `stop()`
    turns true, `DivergedError` if the loss is not finite.
    """
    with in_one_line():
        if finished and processes.world_size() == 1:
            return None
        accelerator = _accelerator(job)
        if processes.world_size() > 1:
            Ranks(accelerator).from_main(finished)
        if finished:
            return None
        training = job.parts.training
        warn_of_emulation(training.precision, device=accelerator.device.type, key="training.precision")
        lines = book.begin(
            device=str(accelerator.device),
            threads=torch.get_num_threads(),
            processes=accelerator.num_processes,
            precision=training.precision,
        )
        loop = loop_of(job, book, display, stop, folder=folder, accelerator=accelerator)
        sizes = {"rows": loop.objective.size("train"), "per_epoch": loop.per_epoch, "total": loop.total}
        for line in (*lines, *loop.objective.notes, *_without_effect(training, **sizes)):
            display.note(line)
        book.resumed()
        display.begin(loop.progress.step, loop.total)
        try:
            epoch = loop.fit()
        finally:
            display.close()
        loop.test(epoch)
        return loop


def assist(job: Job, *, folder: Path, stop: Callable[[], bool]) -> None:
    """Compute the share of a process other than the first; write nothing."""
    with in_one_line():
        accelerator = _accelerator(job)
        if Ranks(accelerator).from_main(0):  # finished before
            return
        loop = loop_of(job, Mute(), Mute(), stop, folder=folder, accelerator=accelerator)
        loop.test(loop.fit())


def rehearse(job: Job, updates: int) -> Trace:
    """Return the golden trace of a run under the current code: its first updates; nothing is kept."""
    check(job)
    with tempfile.TemporaryDirectory() as folder, in_one_line():
        loop = loop_of(job, Mute(), Mute(), lambda: False, folder=Path(folder))
        return loop.rehearse(updates)


def retraced(job: Job, output: Path, title: str) -> str | None:
    """Return how the current code differs from the golden trace in a run's output; None if every bit is equal.

    Raises `InputError`, with `title`, if there is none.
    """
    file = output / TRACE_FILE
    if not file.is_file():
        raise InputError(f"{title}: its version of the code wrote no golden trace; train it again")
    before: Trace = json.loads(file.read_text("utf-8"))
    return trace_difference(before, rehearse(job, len(before["steps"])))


def loop_of(
    job: Job,
    log: Log,
    display: Display,
    stop: Callable[[], bool],
    *,
    folder: Path,
    accelerator: Accelerator | None = None,
) -> Loop:
    """Return the training loop of this process; it works in `folder`."""
    accelerator = accelerator or _accelerator(job)
    model, training, asked = job.parts.model, job.parts.training, job.parts.objective
    task = Task(
        folder=job.data,
        manifest=job.manifest,
        tokenizer=job.tokenizer,
        max_length=model.max_length,
        fraction=training.fraction,
        batch_size=training.batch_size,
        bucket=training.bucket,
        seed=job.seed,
    )
    with plugins_named():
        objective: Objective = OBJECTIVES[asked.kind].make(_options(asked), task=task)
    for declared in (objective.metrics, *filter(None, [getattr(objective, "generated", ())])):
        checked(declared, f"objective {asked.kind!r}")
    if training.select not in (names := [one.name for one in objective.metrics if one.better]):
        raise InputError(
            f"training.select: the objective has no metric {training.select!r} with a better direction; it has "
            f"{', '.join(names)}"
        )
    taken = {one.name for one in objective.metrics}
    if job.metrics and not hasattr(objective, "predicted"):
        raise InputError(f"training.metrics: objective {asked.kind!r} predicts nothing per text; remove them")
    sets = getattr(objective, "problem", None) == "multi_label_classification"
    further = [FurtherMetrics(job.metrics, key="training.metrics", taken=taken, sets=sets)] if job.metrics else []
    fusion = {name: [*one] if isinstance(one, tuple) else one for name, one in vars(model.fusion).items()}
    parts = {"encoder": vars(model.encoder), "fusion": fusion}
    start = job.checkpoint
    if chosen := job.starts():
        start = STARTS[model.encoder.kind].factory(job, chosen, folder / "start", Ranks(accelerator))
    built = objective.build(parts, start)
    asked_points = getattr(job.parts.penalty, "points", None)
    if asked_points is not None and asked_points.vectors == "first" and _is_causal(built):
        raise InputError(
            f"penalty.points.vectors: 'first', but {type(built).__name__} is a decoder, whose first token sees no "
            "other; set mean or tokens"
        )
    job.unchanged()  # checkpoints take their tokenizer from the data
    job.starts()  # still intact, after they were read
    return Loop(
        built,
        objective,
        settings=training,
        seed=job.seed,
        accelerator=accelerator,
        penalised=penalised(job.parts.penalty, classes=objective.classes, seed=job.seed),
        observers=observers_of(training, job.parts.observers),
        further=further,
        work=folder / "work",
        states=folder / "states",
        keeper=Keeper(folder / "work", keep=training.keep, tokenizer=job.tokenizer, max_length=model.max_length),
        log=log,
        display=display,
        stop=stop,
    )


def _is_causal(model: Any) -> bool:
    return causal(bare(model.base_model), np.arange(1, 5, dtype=np.int32))


def observers_of(training: Any, own: Mapping[str, Any]) -> list[Observer]:
    """Return the observers of a run, in the order of their metrics: built-in, then those of plugins by name."""
    asked = [(name, settings) for name in OBSERVERS.modules if (settings := getattr(training, name)) is not None]
    found: list[Observer] = [OBSERVERS[name].make(vars(settings)) for name, settings in asked]
    found.append(FusionMoved())
    for name, settings in own.items():
        with plugins_named():
            made = OBSERVERS[settings.kind].make(_options(settings))
        if not isinstance(made, Observer):
            raise InputError(f"observers.{name}: its plugin returns {brief(made)}, expected an Observer")
        made.name = name
        found.append(made)
    return found


def _options(settings: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(settings).items() if name != "kind"}


def _accelerator(job: Job) -> Accelerator:
    training, fusion = job.parts.training, job.parts.model.fusion
    # An update may leave parameters unused under a plugin, and without token types.
    unused = job.plugins or getattr(fusion, "token_type", "add") != "add"
    return make_accelerator(training, unused=unused)


def _without_effect(settings: Any, *, rows: int, per_epoch: int, total: int) -> list[str]:
    """Return a line for each setting that is too large for a run of `total` updates, `per_epoch` an epoch.

    `rows`: of the train split that is used.
    """
    found = []
    if per_epoch == 1 and settings.batch_size >= rows:
        found.append(
            f"training.batch_size {settings.batch_size:,} holds all {rows:,} rows of train: one update per epoch, "
            f"{total:,} in all; a smaller batch gives more updates"
        )
    if settings.log_every > total:
        found.append(f"training.log_every {settings.log_every:,}: no step is logged, the run has {total:,} updates")
    if settings.evaluations > per_epoch:
        found.append(f"training.evaluations {settings.evaluations:,}: an epoch has {per_epoch:,} updates, so as many")
    every = settings.snapshots.steps
    if isinstance(every, int) and every > total:
        found.append(f"training.snapshots.steps {every:,}: only the start is kept, the run has {total:,} updates")
    return found
