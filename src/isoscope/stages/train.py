"""Stage `train-<study>@<arm>-<seed>`: one model, trained, kept, and scored once on the test split."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from accelerate import Accelerator

from isoscope import paths
from isoscope.config.model import CheckpointTokenizer, Model, Pretrained, Scratch
from isoscope.config.training import Training
from isoscope.config.tree import Tree
from isoscope.corpora import tokens
from isoscope.corpora.batches import draw_fraction
from isoscope.corpora.checkpoints import fetch_checkpoint
from isoscope.corpora.corpus import SPLITS
from isoscope.corpora.hub import checkpoint_digest
from isoscope.corpora.tokens import Encoded
from isoscope.errors import InputError
from isoscope.guard import StoppedError, StopSignal
from isoscope.models import build
from isoscope.tracking.provenance import dvc_md5
from isoscope.tracking.run import Identity, Run, tracked
from isoscope.training.display import Progressbar
from isoscope.training.keeping import Keeper
from isoscope.training.loop import InterruptedRunError, Loop

_CONTEXTS = {"train": "training", "validation": "validation", "test": "test"}


class Cell(NamedTuple):
    """Which cell of which study is trained, and the plain tree of its parameters."""

    study: str
    arm: str
    axes: dict[str, str]
    seed: int
    task: str
    tree: Tree
    plugins: dict[str, str]


class Inputs(NamedTuple):
    """Folders a run reads: the prepared task, the tokenizer, and a checkpoint unless it starts from scratch."""

    data: Path
    tokenizer: Path
    checkpoint: Path | None


def train(model: Model, training: Training, *, cell: Cell, project: paths.Project, output: Path | None) -> Path:
    """Train one cell, or go on with it, or find it finished; returns the folder that holds the result.

    The result is published to `output` (the pipeline's own place unless a path is given; None publishes nothing).
    Raises `InputError` on bad input, `StoppedError` after a signal, `DivergedError` on a loss that is no number.
    """
    data = project.folder / paths.processed(cell.task)
    if not (data / "manifest.json").is_file():
        raise InputError(f"{data}: task {cell.task!r} is not prepared; run: isoscope prepare {cell.task}")
    labels = json.loads((data / "manifest.json").read_text("utf-8"))["labels"]
    inputs = _inputs(model, data)
    run = Run(project, _identity(cell, inputs))
    with StopSignal() as stop, tracked(run, stop):
        if not run.finished:
            _train(run, model, training, inputs, cell, labels, output, stop)
        if output is None:
            return run.output
        md5 = run.publish(output, labels=labels)
        run.finished_as(output, md5)
    return output


def _inputs(model: Model, data: Path) -> Inputs:
    match model.encoder:
        case Pretrained() as start:
            folder = fetch_checkpoint(start.checkpoint, revision=start.revision)
            return Inputs(data, folder, folder)
        case Scratch(tokenizer=CheckpointTokenizer() as named):
            return Inputs(data, fetch_checkpoint(named.checkpoint, revision=named.revision), None)
        case _:
            return Inputs(data, data / "tokenizer", None)


def _identity(cell: Cell, inputs: Inputs) -> Identity:
    hashes = {"data": dvc_md5(inputs.data)}
    by_path = {paths.processed(cell.task).as_posix(): hashes["data"]}
    if inputs.tokenizer.parent != inputs.data:
        hashes["checkpoint"] = checkpoint_digest(inputs.tokenizer)
        by_path["/".join(inputs.tokenizer.parts[-2:])] = hashes["checkpoint"]
    return Identity(
        stage="train",
        study=cell.study,
        arm=cell.arm,
        seed=cell.seed,
        task=cell.task,
        axes=cell.axes,
        params={section: cell.tree[section] for section in ("model", "training")},
        inputs=hashes,
        input_paths=by_path,
        plugins=cell.plugins,
    )


def _train(
    run: Run,
    model: Model,
    training: Training,
    inputs: Inputs,
    cell: Cell,
    labels: list[str],
    output: Path | None,
    stop: StopSignal,
) -> None:
    accelerator = _accelerator(training)
    tokenizer = tokens.load(inputs.tokenizer)
    tables = {split: pq.read_table(inputs.data / f"{split}.parquet") for split in SPLITS}
    splits = {name: tokens.encode(tokenizer, table, max_length=model.max_length) for name, table in tables.items()}
    drawn = draw_fraction(splits["train"].labels, training.fraction, seed=cell.seed)
    splits["train"] = splits["train"].take(drawn)
    network = _build(model, inputs, tokenizer, labels=labels, seed=cell.seed)
    run.begin(device=str(accelerator.device), threads=torch.get_num_threads(), precision=training.precision)
    for name, table in tables.items():
        file = f"{name}.parquet"
        run.record.dataset(
            f"{cell.task}/{name}",
            context=_CONTEXTS[name],
            digest=dvc_md5(inputs.data / file),
            path=(paths.processed(cell.task) / file).as_posix(),
            rows=table.num_rows,
        )
    torch.manual_seed(cell.seed)  # dropout; weights and batches have generators of their own
    loop = Loop(
        network,
        train=splits["train"],
        validation=splits["validation"],
        settings=training,
        seed=cell.seed,
        pad_id=tokenizer.pad_id,
        accelerator=accelerator,
        work=run.work,
        states=run.states,
        keeper=Keeper(run.work, keep=training.keep, tokenizer=inputs.tokenizer, max_length=model.max_length),
        log=run.record,
        display=(display := Progressbar(run.identity.title)),
        stop=lambda: stop.received is not None,
    )
    for name, encoded in splits.items():
        if encoded.truncated:
            display.note(f"{name}: {encoded.truncated} of {len(encoded.ids)} texts cut to {model.max_length} tokens")
    display.begin(loop.progress.step, loop.total)
    try:
        fitted = loop.fit()
    except InterruptedRunError:
        signum = stop.received or 0
        raise StoppedError(
            signum, f"{run.identity.title}: stopped at step {loop.progress.step}/{loop.total}; the same command goes on"
        ) from None
    finally:
        display.close()
    _score(loop, splits["test"], fitted.epoch, run.work)
    loop.points.flush()
    _list_checkpoints(run, loop, output)
    run.complete()


def _accelerator(training: Training) -> Accelerator:
    if training.device == "cuda" and not torch.cuda.is_available():
        raise InputError("training.device: 'cuda' is not available on this machine; use -S training.device=cpu")
    if training.threads is not None:
        torch.set_num_threads(training.threads)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with it
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # a guard against bugs that costs conv2d 2 % of a step
    accelerator = Accelerator(
        cpu=training.device == "cpu", mixed_precision="bf16" if training.precision == "bf16" else "no"
    )
    if accelerator.num_processes > 1:
        raise InputError(f"{accelerator.num_processes} processes: a run trains in one process; start one per cell")
    return accelerator


def _build(model: Model, inputs: Inputs, tokenizer: Any, *, labels: list[str], seed: int) -> Any:
    fusion = model.fusion.model_dump(mode="json")
    if inputs.checkpoint is not None:
        return build.from_checkpoint(inputs.checkpoint, fusion=fusion, labels=labels, seed=seed)
    scratch = model.encoder.model_dump(exclude={"kind", "tokenizer"})
    return build.from_scratch(
        fusion=fusion, vocab_size=tokenizer.vocab_size, labels=labels, pad_id=tokenizer.pad_id, seed=seed, **scratch
    )


def _score(loop: Loop, test: Encoded, epoch: int, work: Path) -> None:
    """Touch the test split once: figures of the chosen epoch, and a prediction per row."""
    result = loop.evaluate(test)
    for name, value in result.sums.figures().items():
        loop.point(f"test/{name}", value, epoch)
    loop.point("training/best_epoch", float(epoch), None)
    columns: dict[str, Any] = {
        "row": np.arange(len(test.labels), dtype=np.int64),
        "label": test.labels.astype(np.int64),
        "predicted": result.logits.argmax(-1).astype(np.int64),
    }
    columns |= {f"logit_{index}": result.logits[:, index] for index in range(result.logits.shape[1])}
    pq.write_table(pa.table(columns), work / "predictions.parquet")


def _list_checkpoints(run: Run, loop: Loop, output: Path | None) -> None:
    """Tell the record of the kept epochs, by the path under which they will be found."""
    where = run.name_of(output or run.output)
    points = [json.loads(line) for line in (run.work / "metrics.jsonl").read_text("utf-8").splitlines()]
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
