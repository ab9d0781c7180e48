"""Collect what training a cell needs: its run, its sections, and the folders it reads."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from isoscope import code, paths
from isoscope.config import project as config
from isoscope.config.base import Section
from isoscope.config.model import CheckpointTokenizer, Model, Pretrained, Scratch
from isoscope.config.training import Training
from isoscope.config.tree import Tree
from isoscope.data.checkpoints import checkpoint_digest, fetch_checkpoint, loadable_config
from isoscope.guard import StopSignal
from isoscope.runs.prepared import content_md5, read_manifest
from isoscope.runs.provenance import dvc_md5
from isoscope.runs.restored import METRICS, read_metrics
from isoscope.runs.run import Identity, Run, carry_out

SECTIONS = ("model", "objective", "penalty", "observers", "training")


class Cell(NamedTuple):
    """The cell to train: study, arm, seed, task, and the plain tree of its parameters."""

    study: str
    arm: str
    axes: dict[str, str]
    seed: int
    task: str
    tree: Tree
    plugins: dict[str, str]


class Inputs(NamedTuple):
    """Folders that a run reads: the prepared task, the tokenizer, and a checkpoint unless it starts from scratch."""

    data: Path
    tokenizer: Path
    checkpoint: Path | None


class Job(NamedTuple):
    """A cell's run and all its inputs."""

    run: Run
    model: Model
    objective: Section
    penalty: Section
    observers: Mapping[str, Section]
    training: Training
    inputs: Inputs
    cell: Cell
    manifest: dict[str, Any]


def sections(of: config.Cell | Job) -> tuple[Any, ...]:
    """Return the sections of a cell or job that training needs, in the order of `job`."""
    return tuple(getattr(of, name) for name in SECTIONS)


def job(
    model: Model,
    objective: Section,
    penalty: Section,
    observers: Mapping[str, Section],
    training: Training,
    *,
    cell: Cell,
    project: paths.Project,
) -> Job:
    """Return the job of training a cell. Raises `InputError` if its task is not prepared or a checkpoint is missing."""
    manifest = read_manifest(project, cell.task)
    inputs = _inputs(model, project.folder / paths.processed(cell.task))
    run = Run(project, _identity(cell, inputs, watched=training.watch is not None))
    return Job(run, model, objective, penalty, observers, training, inputs, cell, manifest)


def carry(work: Job, do: Callable[[bool], None] | None, *, stop: StopSignal, output: Path | None) -> Path | None:
    """Lease a cell's run, `do` it unless it is finished, and publish it (see `carry_out`)."""
    facts = {"labels": work.manifest.get("labels", [])}
    return carry_out(work.run, do, stop=stop, output=output, points=read_metrics, source=METRICS, facts=lambda _: facts)


def _inputs(model: Model, data: Path) -> Inputs:
    match model.encoder:
        case Pretrained() as start:
            folder = fetch_checkpoint(start.checkpoint, revision=start.revision)
            loadable_config(folder)
            return Inputs(data, folder, folder)
        case Scratch(tokenizer=CheckpointTokenizer() as named):
            return Inputs(data, fetch_checkpoint(named.checkpoint, revision=named.revision), None)
        case _:
            return Inputs(data, data / "tokenizer", None)


def _identity(cell: Cell, inputs: Inputs, *, watched: bool) -> Identity:
    hashes = {"data": content_md5(inputs.data)}
    by_path = {paths.processed(cell.task).as_posix(): dvc_md5(inputs.data)}
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
        params={section: cell.tree[section] for section in SECTIONS},
        inputs=hashes,
        input_paths=by_path,
        plugins=cell.plugins,
        used=code.modules(
            objective=cell.tree["objective"]["kind"],
            penalty=cell.tree["penalty"]["kind"],
            observers=code.observers(watched=watched),
        ),
    )
