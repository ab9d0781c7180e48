"""Stage `train-<study>@<arm>-<seed>`: one model, trained, kept, and scored once on the test split."""

import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from accelerate import Accelerator, DistributedDataParallelKwargs

from isoscope import launched, paths
from isoscope.config.base import Section
from isoscope.config.model import Model
from isoscope.config.training import Training
from isoscope.corpora import tokens
from isoscope.corpora.batches import draw_fraction
from isoscope.corpora.corpus import SPLITS
from isoscope.corpora.tokens import Encoded
from isoscope.errors import InputError
from isoscope.guard import StoppedError, StopSignal
from isoscope.models import build
from isoscope.models.precision import warn_of_emulation
from isoscope.stages.training_job import Cell, Inputs, Job, job
from isoscope.tracking.provenance import dvc_md5
from isoscope.tracking.restored import METRICS, read_metrics
from isoscope.tracking.run import Run, tracked
from isoscope.training import trace
from isoscope.training.determinism import choose_kernels
from isoscope.training.display import Display, Log, Mute, Progressbar
from isoscope.training.keeping import Keeper
from isoscope.training.loop import InterruptedRunError, Loop
from isoscope.training.penalised import penalised
from isoscope.training.posthoc import posthoc_figures
from isoscope.training.ranks import Ranks, in_one_line

_CONTEXTS = {"train": "training", "validation": "validation", "test": "test"}


def train(
    model: Model, penalty: Section, training: Training, *, cell: Cell, project: paths.Project, output: Path | None
) -> Path:
    """Train one cell, or go on with it, or find it finished; returns the folder that holds the result.

    The result is published to `output` (the pipeline's own place unless a path is given; None publishes nothing).
    Of several processes the first one owns the run and the others only compute.
    Raises `InputError` on bad input, `StoppedError` after a signal, `DivergedError` on a loss that is no number.
    """
    work = job(model, penalty, training, cell=cell, project=project)
    run = work.run
    with StopSignal() as stop:
        if launched.rank() > 0:
            with in_one_line():
                _assist(work, stop)
            return output or run.output
        with tracked(run, stop):
            finished = run.finished
            with in_one_line():
                if launched.size() > 1:
                    Ranks(_accelerator(work)).from_main(finished)
                if finished:
                    run.found(read_metrics(run.output), source=METRICS)
                    print(f"{run.identity.title} ({run.digest[:12]}): found finished, nothing trained", file=sys.stderr)
                else:
                    _train(work, output, stop)
            if output is None:
                return run.output
            md5 = run.publish(output, labels=work.labels)
            run.finished_as(output, md5)
    return output


def rehearse(work: Job, updates: int) -> trace.Trace:
    """The golden trace of a run under the code as it is now: its first updates, none of them kept."""
    with tempfile.TemporaryDirectory() as folder, in_one_line():
        loop, _ = _loop(work, _accelerator(work), Mute(), Mute(), lambda: False, folder=Path(folder))
        return loop.rehearse(updates)


def _train(work: Job, output: Path | None, stop: StopSignal) -> None:
    """Train, score and complete a run, as its one process or as the first of several."""
    run, training = work.run, work.training
    accelerator = _accelerator(work)
    warn_of_emulation(training.precision, device=accelerator.device.type, key="training.precision")
    run.begin(
        device=str(accelerator.device),
        threads=torch.get_num_threads(),
        processes=accelerator.num_processes,
        precision=training.precision,
    )
    display = Progressbar(run.identity.title)
    loop, splits = _loop(work, accelerator, run.record, display, lambda: stop.received is not None, folder=run.folder)
    for name, encoded in splits.items():
        file = f"{name}.parquet"
        run.record.dataset(
            f"{work.cell.task}/{name}",
            context=_CONTEXTS[name],
            digest=dvc_md5(work.inputs.data / file),
            path=(paths.processed(work.cell.task) / file).as_posix(),
            rows=pq.read_metadata(work.inputs.data / file).num_rows,
        )
        if encoded.truncated:
            display.note(f"{name}: {encoded.truncated} texts cut to {work.model.max_length} tokens")
    run.mend(read_metrics(run.work), source=METRICS)
    display.begin(loop.progress.step, loop.total)
    try:
        fitted = loop.fit()
    except InterruptedRunError:
        signum = stop.received or signal.SIGTERM  # another process of the run was told to
        raise StoppedError(
            signum, f"{run.identity.title}: stopped at step {loop.progress.step}/{loop.total}; the same command goes on"
        ) from None
    finally:
        display.close()
    _score(loop, splits["test"], fitted.epoch, run.work)
    assert loop.points is not None
    loop.points.flush()
    _list_checkpoints(run, loop, loop.points.read(), output)
    run.complete()


def _assist(work: Job, stop: StopSignal) -> None:
    """Compute what falls to another process than the first one; write nothing."""
    accelerator = _accelerator(work)
    if Ranks(accelerator).from_main(0):  # finished before
        return
    told = lambda: stop.received is not None  # noqa: E731
    loop, splits = _loop(work, accelerator, Mute(), Mute(), told, folder=work.run.folder)
    try:
        loop.fit()
    except InterruptedRunError:
        raise StoppedError(stop.received or signal.SIGTERM, "stopped with the first process") from None
    loop.scorer.evaluate(splits["test"], loop.scorer.place)


def _loop(
    work: Job, accelerator: Accelerator, log: Log, display: Display, stop: Callable[[], bool], *, folder: Path
) -> tuple[Loop, dict[str, Encoded]]:
    """The loop of one process, which works in `folder`, and the encoded splits."""
    inputs, model, training, seed = work.inputs, work.model, work.training, work.cell.seed
    tokenizer = tokens.load(inputs.tokenizer)
    tables = {split: pq.read_table(inputs.data / f"{split}.parquet") for split in SPLITS}
    splits = {name: tokens.encode(tokenizer, table, max_length=model.max_length) for name, table in tables.items()}
    drawn = draw_fraction(splits["train"].labels, training.fraction, seed=seed)
    splits["train"] = splits["train"].take(drawn)
    output = folder / "work"
    built = _build(model, inputs, tokenizer, labels=work.labels, seed=seed)
    _check_tables(built.config, splits)
    loop = Loop(
        built,
        train=splits["train"],
        validation=splits["validation"],
        settings=training,
        seed=seed,
        pad_id=tokenizer.pad_id,
        accelerator=accelerator,
        penalised=penalised(work.penalty, classes=len(work.labels), seed=seed),
        work=output,
        states=folder / "states",
        keeper=Keeper(output, keep=training.keep, tokenizer=inputs.tokenizer, max_length=model.max_length),
        log=log,
        display=display,
        stop=stop,
    )
    return loop, splits


def _accelerator(work: Job) -> Accelerator:
    training = work.training
    if training.device == "cuda" and not torch.cuda.is_available():
        raise InputError("training.device: 'cuda' is not available on this machine; use -S training.device=cpu")
    if training.threads is not None:
        torch.set_num_threads(training.threads)
    choose_kernels(training.determinism)
    accelerator = Accelerator(
        cpu=training.device == "cpu",
        mixed_precision="bf16" if training.precision == "bf16" else "no",
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=_may_leave_some(work))],
    )
    if accelerator.num_processes != launched.size():
        raise InputError(
            f"{accelerator.num_processes} processes by the launcher's own variables, {launched.size()} by WORLD_SIZE; "
            "start them with accelerate launch --multi_gpu or torchrun"
        )
    return accelerator


def _may_leave_some(work: Job) -> bool:
    """Whether an update may leave parameters unused: a plugin's fusion, no token type, or frozen first epochs."""
    fusion, frozen = work.model.fusion, work.training.freeze.epochs > 0
    return frozen or bool(work.cell.plugins) or getattr(fusion, "token_type", "add") != "add"


def _build(model: Model, inputs: Inputs, tokenizer: Any, *, labels: list[str], seed: int) -> Any:
    fusion = model.fusion.model_dump(mode="json")
    if inputs.checkpoint is not None:
        return build.from_checkpoint(inputs.checkpoint, fusion=fusion, labels=labels, seed=seed)
    scratch = model.encoder.model_dump(exclude={"kind", "tokenizer"})
    return build.from_scratch(
        fusion=fusion, vocab_size=tokenizer.vocab_size, labels=labels, pad_id=tokenizer.pad_id, seed=seed, **scratch
    )


def _check_tables(config: Any, splits: Mapping[str, Encoded]) -> None:
    """That every token and every segment has its row."""
    for what, field, rows in (("token", "ids", config.vocab_size), ("segment", "type_ids", config.type_vocab_size)):
        most = max(int(array.max()) for split in splits.values() for array in getattr(split, field))
        if most >= rows:
            raise InputError(
                f"model.encoder: the tokenizer gives {what} {most}, but the encoder's table has {rows} rows; take the "
                "tokenizer that it was trained with"
            )


def _score(loop: Loop, test: Encoded, epoch: int, work: Path) -> None:
    """Touch the test split once: figures of the chosen epoch, a prediction per row, and maps after the fact."""
    result = loop.scorer.evaluate(test, loop.scorer.place)
    for name, value in result.sums.figures().items():
        loop.point(f"test/{name}", value, epoch)
    if result.points is not None:
        for name, value in posthoc_figures(result.points, test.labels).items():
            loop.point(f"posthoc/{name}", value, epoch)
    loop.point("training/best_epoch", float(epoch), None)
    columns: dict[str, Any] = {
        "row": np.arange(len(test.labels), dtype=np.int64),
        "label": test.labels.astype(np.int64),
        "predicted": result.logits.argmax(-1).astype(np.int64),
    }
    columns |= {f"logit_{index}": result.logits[:, index] for index in range(result.logits.shape[1])}
    pq.write_table(pa.table(columns), work / "predictions.parquet")


def _list_checkpoints(run: Run, loop: Loop, points: list[dict[str, Any]], output: Path | None) -> None:
    """Tell the record of the kept epochs, by the path under which they will be found."""
    where = run.name_of(output or run.output)
    for epoch, folder in loop.keeper.kept():
        figures = {point["name"]: point["value"] for point in points if point["epoch"] == epoch}
        run.record.checkpoint(
            f"{run.digest[:12]}-epoch-{epoch}",
            epoch=epoch,
            step=epoch * loop.per_epoch,
            path=f"{where}/checkpoints/{folder.name}",
            md5=dvc_md5(folder, leave_out={"manifest.json"}),
            metrics=figures,
        )
