"""The stages of the pipeline, and all of them at once."""

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from isoscope import launched
from isoscope.cli.options import AsJson, Plugins, Set, app, as_stage, check_data, configure, heal, importing, say
from isoscope.cli.places import check_free
from isoscope.errors import InputError

# What a result holds at most, and at least.
_TRAINED = (
    {"config.yaml", "metrics.jsonl", "predictions.parquet", "trace.json", "checkpoints", "snapshots"},
    {"config.yaml", "metrics.jsonl"},
)
_PREPARED = (
    {
        *(f"{split}.parquet" for split in ("train", "validation", "test", "treebank")),
        "tokenizer",
        "manifest.json",
        "settings.json",
    },
    {"manifest.json", "settings.json"},
)
_OWN_DATA = ("processed", "hidden_states", "measures")


def _replaceable(
    out: Path, project: Path, studies: Collection[str], result: tuple[Collection[str], Collection[str]]
) -> Path:
    """`out`, absolute, if it is free or an earlier result by hand: publishing replaces the whole folder."""
    place = out.resolve()
    if not place.is_relative_to(project.resolve()):
        raise InputError(f"--out {out}: leads out of the project; give a folder within {project}")
    parts = place.relative_to(project.resolve()).parts
    for top, own in (("models", studies), ("data", _OWN_DATA)):
        if parts[:1] == (top,) and (len(parts) < 2 or parts[1] in own):
            raise InputError(
                f"--out {out}: is the pipeline's own place; give another folder, such as {top}/by-hand/name"
            )
    check_free(out, such_as=f"{'data' if result is _PREPARED else 'models'}/by-hand/name")
    held = {path.name for path in place.iterdir()} if place.is_dir() else {place.name} if place.exists() else set()
    most, least = map(set, result)
    if held and not least <= held <= most:
        raise InputError(f"--out {out}: holds something other than an earlier result; give a new folder")
    return place


def _refuse_override(configuration: Any, task: str) -> None:
    """A task's place holds what its overlay says: every other command reads it, and DVC knows nothing of `-S`."""
    from isoscope.tracking.prepared import overridden

    if names := overridden(configuration, task):
        raise InputError(
            f"prepare {task}: -S changes {', '.join(names[:3])}, but data/processed/{task} is for what params.yaml and "
            f"variants/task/{task}.yaml say; give --out FOLDER, or run isoscope repro -S …, or describe another task"
        )


@app.command()
def prepare(
    task: Annotated[str, typer.Argument(help="A task of params.yaml.")],
    overrides: Set = [],  # noqa: B006 - typer copies it
    plugin: Plugins = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(help="Write the data here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a task's parquet files, manifest and tokenizer.

    They go to the task's own place, data/processed/TASK, which every other command reads. Where -S changes them, they
    go only where --out says.

    Example: isoscope prepare sentiment
    """
    project, configuration = configure(overrides, plugin)
    data = configuration.data(task)
    output = _replaceable(out, project.folder, configuration.root.studies, _PREPARED) if out else None
    if output is None:
        _refuse_override(configuration, task)
    as_stage()
    with importing():
        from isoscope.stages.prepare import prepare as stage

    folder = stage(data, task=task, project=project, output=output)
    say({"folder": str(folder)}, as_json, f"prepared {task}: {folder.relative_to(project.folder)}")


@app.command()
def train(
    study: Annotated[str, typer.Argument(help="A study of params.yaml.")],
    arm: Annotated[str, typer.Argument(help="One value per axis, joined by '-'.")],
    seed: Annotated[int, typer.Option(help="Seed of weights, batches and dropout.", min=0, max=2**31 - 1)],
    overrides: Set = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(help="Publish the result here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train one arm of a study with one seed, or go on where it was stopped.

    The result goes to the pipeline's place, models/STUDY/ARM/seed-N. With -S, --plugin or a seed that is not the
    study's it is another experiment: it stays in .isoscope/runs/ and goes nowhere else unless --out says so.

    Example: isoscope train fusion additive --seed 0 -S training.epochs=2
    """
    project, configuration = configure(overrides, plugin)
    resolved = configuration.cell(study, arm)
    output = _replaceable(out, project.folder, configuration.root.studies, _TRAINED) if out else None
    check_data(project, configuration, configuration.study(study).task)
    as_stage()
    if not launched.rank():
        heal(project)
    with importing():
        from isoscope import paths
        from isoscope.stages.train import train as stage
        from isoscope.stages.training_job import Cell
        from isoscope.tracking.restored import METRICS, read_points

    settings = configuration.study(study)
    if output is None and not (configuration.overrides or plugin) and seed in settings.seeds:
        output = project.folder / paths.trained(study, arm, seed)
    cell = Cell(
        study, arm, resolved.axes, seed, settings.task, resolved.tree, configuration.plugin_digests(resolved.cell)
    )
    sections = resolved.cell.model, resolved.cell.penalty, resolved.cell.training
    folder = stage(*sections, cell=cell, project=project, output=output)
    shown = folder.relative_to(project.folder) if folder.is_relative_to(project.folder) else folder
    if not launched.rank():
        test = [one for one in read_points(folder / METRICS) if one["name"].startswith("test/")]
        metrics, epoch = {one["name"]: one["value"] for one in test}, test[0]["epoch"]
        scores = ", ".join(f"{name} {value:.3f}" for name, value in metrics.items())
        text = f"trained {study} {arm} seed {seed}: {shown} (epoch {epoch}: {scores})"
        say({"folder": str(folder), "epoch": epoch, "metrics": metrics}, as_json, text)


@app.command()
def accept(
    studies: Annotated[list[str] | None, typer.Argument(help="Studies of params.yaml; all, if none is named.")] = None,
    as_json: AsJson = False,
) -> None:
    """Let finished runs stand for the code as it is now, if it gives the same numbers.

    After a change of the code that is meant to change no number: each arm's golden trace (its first 8 updates) is made
    again and must equal the finished run's in every bit. Else nothing is accepted, and the exit code is 1.

    Example: isoscope accept fusion
    """
    project, configuration = configure([])
    chosen = studies or list(configuration.root.studies)
    cells = [
        (name, arm, seed, resolved)
        for name in chosen
        for seed in configuration.study(name).seeds
        for arm, resolved in configuration.cells(name).items()
    ]
    check_data(project, configuration, *(configuration.study(name).task for name, *_ in cells))
    heal(project)
    with importing():
        from isoscope.stages.accept import accept as stage
        from isoscope.stages.training_job import Cell, job

    jobs = []
    for name, arm, seed, one in cells:
        digests = configuration.plugin_digests(one.cell)
        cell = Cell(name, arm, one.axes, seed, configuration.study(name).task, one.tree, digests)
        jobs.append(job(one.cell.model, one.cell.penalty, one.cell.training, cell=cell, project=project))
    found = stage(jobs, project=project)
    lines = [
        f"{one.job.run.identity.title} ({one.digest[:12]}): accepted, its golden trace is the same" for one in found
    ]
    say({"accepted": [one.digest for one in found]}, as_json, "\n".join(lines or ["nothing to accept"]))


@app.command()
def analyse(
    study: Annotated[str, typer.Argument(help="A study of params.yaml.")],
    overrides: Set = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Write a study's curves, table of arms and confusion matrices.

    Example: isoscope analyse fusion
    """
    project, configuration = configure(overrides)
    arms, settings = configuration.cells(study), configuration.study(study)
    check_data(project, configuration, *([settings.task] if settings.seeds else []))
    as_stage()
    heal(project)
    with importing():
        from isoscope.stages.analyse import analyse as stage

    folder = stage(configuration.root.analysis, settings, name=study, arms=arms, project=project)
    say({"folder": str(folder)}, as_json, f"analysed {study}: {folder.relative_to(project.folder)}")


@app.command()
def chart(
    study: Annotated[str, typer.Argument(help="A study of params.yaml.")],
    overrides: Set = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Show a study's arms over training: curves, averages of the end, differences, published figures beside ours.

    Example: isoscope chart isotropy -S reproduction.last=0.5
    """
    project, configuration = configure(overrides)
    settings, cells = configuration.study(study), configuration.cells(study)
    as_stage()
    heal(project)
    with importing():
        from isoscope.stages.chart import chart as stage

    root = configuration.root
    folder = stage(root.analysis, root.reproduction, settings, name=study, arms=cells, project=project)
    shown = folder.relative_to(project.folder)
    say({"folder": str(folder)}, as_json, f"charted {study}: {shown}")


@app.command()
def reproduce(
    study: Annotated[str, typer.Argument(help="A study of params.yaml, charted.")],
    as_json: AsJson = False,
) -> None:
    """Hold a study's figures against the published ones; exit code 1 where one of them fails.

    Read from what `isoscope chart` wrote. What was published for another backbone or task is not held against it.

    Example: isoscope reproduce isotropy
    """
    project, configuration = configure([])
    configuration.study(study)
    with importing():
        from isoscope import paths
        from isoscope.studies.isotropy.reproduction import FAIL, as_text, read

    cells = read(project.folder / paths.charted(study))
    say({"cells": [cell._asdict() for cell in cells]}, as_json, as_text(cells))
    if any(cell.verdict == FAIL for cell in cells):
        raise typer.Exit(1)


@app.command()
def report(
    overrides: Set = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Write reports/index.html: every figure on one self-contained page.

    Example: isoscope report -S 'report.title=Fusion on SST-2'
    """
    project, configuration = configure(overrides)
    root = configuration.root
    check_data(project, configuration, *root.tasks)
    as_stage()
    heal(project)
    with importing():
        from isoscope.stages.report import report as stage

    page = stage(root.report, root.studies, root.tasks, project=project)
    say({"page": str(page)}, as_json, f"report: {page.relative_to(project.folder)}")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def repro(
    context: typer.Context,
    overrides: Set = [],  # noqa: B006
) -> None:
    """Run the pipeline: `dvc repro`, mirrored into MLflow as it goes. Further words are DVC's.

    With -S it runs as a DVC experiment (`dvc exp run -S …`), which can be compared and undone.

    Example: isoscope repro train-fusion@additive-0
    """
    from isoscope.stages.repro import located
    from isoscope.stages.repro import repro as run

    as_stage()
    project, configuration = configure(overrides)
    _, configuration = configure(located(overrides, configuration))
    configuration.check()
    heal(project)
    sys.exit(run(project, configuration, context.args))
