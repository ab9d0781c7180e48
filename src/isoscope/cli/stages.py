"""The stages of the pipeline, and all of them at once."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from isoscope import launched, paths
from isoscope.cli.options import (
    AsJson,
    Plugins,
    Set,
    Workers,
    app,
    as_stage,
    check_data,
    configure,
    heal,
    importing,
    say,
)
from isoscope.cli.places import PREPARED, TRAINED, replaceable
from isoscope.errors import InputError


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
    output = replaceable(out, project.folder, configuration.root.studies, PREPARED) if out else None
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
    arm: Annotated[str | None, typer.Argument(help="One value per axis, joined by '-' [default: every arm].")] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of weights, batches and dropout [default: the study's].", min=0, max=2**31 - 1),
    ] = None,
    workers: Workers = None,
    overrides: Set = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(help="Publish the one result here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train every cell of a study that is not finished, side by side; or one arm, or one arm with one seed.

    A stopped or killed command goes on where it was. The results go to the pipeline's place, models/STUDY/ARM/seed-N.
    With -S, --plugin or a seed that is not the study's it is another experiment: it stays in .isoscope/runs/ and goes
    nowhere else unless --out says so.

    Example: isoscope train fusion additive --seed 0 -S training.epochs=2
    """
    project, configuration = configure(overrides, plugin)
    settings = configuration.study(study)
    single = arm is not None and seed is not None
    if not single and out:
        raise InputError("--out takes one result; name the arm and its --seed")
    if not single and launched.size() > 1:
        raise InputError("several processes share the work of one run; name the arm and its --seed")
    arms = configuration.cells(study) if arm is None else {arm: configuration.cell(study, arm)}
    output = replaceable(out, project.folder, configuration.root.studies, TRAINED) if out else None
    if single or settings.seeds:
        check_data(project, configuration, settings.task)
    as_stage()
    if not launched.rank():
        heal(project)
    from isoscope.stages.training_job import Cell, sections

    by_hand = bool(configuration.overrides or plugin)
    seeds = settings.seeds if seed is None else (seed,)
    asked = []
    for name, resolved in arms.items():
        digests = configuration.plugin_digests(resolved.cell)
        for one in seeds:
            cell = Cell(study, name, resolved.axes, one, settings.task, resolved.tree, digests)
            own = not by_hand and one in settings.seeds
            place = project.folder / paths.trained(study, name, one) if own else None
            asked.append((sections(resolved.cell), cell, output or place))
    if single:
        _train_one(*asked[0], project, as_json)
        return
    from isoscope.stages.cells import carry_out_all
    from isoscope.stages.studies import training_cells

    (project.folder / paths.trained(study, "any", 0)).parents[1].mkdir(parents=True, exist_ok=True)
    cells, at_once = training_cells(asked, project)
    folders = carry_out_all(
        cells, title=f"train {study}", project=project, prepare=_import_training, workers=workers or at_once
    )
    say({"folders": [str(folder) for folder in folders]}, as_json, f"trained {study}: {len(cells)} cells")


def _import_training() -> None:
    with importing():
        import isoscope.stages.train  # noqa: F401


def _train_one(sections: Any, cell: Any, output: Path | None, project: Any, as_json: bool) -> None:
    with importing():
        from isoscope.stages.train import train as stage
        from isoscope.tracking.restored import METRICS, read_points

    folder = stage(*sections, cell=cell, project=project, output=output)
    shown = folder.relative_to(project.folder) if folder.is_relative_to(project.folder) else folder
    if not launched.rank():
        test = [one for one in read_points(folder / METRICS) if one["name"].startswith("test/")]
        metrics, epoch = {one["name"]: one["value"] for one in test}, test[0]["epoch"]
        scores = ", ".join(f"{name} {value:.3f}" for name, value in metrics.items())
        text = f"trained {cell.study} {cell.arm} seed {cell.seed}: {shown} (epoch {epoch}: {scores})"
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
        from isoscope.stages.training_job import Cell, job, sections

    jobs = []
    for name, arm, seed, one in cells:
        digests = configuration.plugin_digests(one.cell)
        cell = Cell(name, arm, one.axes, seed, configuration.study(name).task, one.tree, digests)
        jobs.append(job(*sections(one.cell), cell=cell, project=project))
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
    settings, cells = configuration.study(study).looked_at("chart"), configuration.cells(study)
    as_stage()
    if not settings.seeds:
        from isoscope.stages.nothing import look_at_nothing

        look_at_nothing(project, paths.charted(study), paths.charts(study))
        say({"folder": None}, as_json, f"charted {study}: nothing asked for")
        return
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
    if not configuration.study(study).looked_at("chart").seeds:
        why = "it has no seeds, or its `looks` lacks chart"
        say({"cells": []}, as_json, f"{study}: no runs to compare: {why}")
        return
    with importing():
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

    Example: isoscope repro train@fusion
    """
    from isoscope.stages.repro import located
    from isoscope.stages.repro import repro as run

    as_stage()
    project, configuration = configure(overrides)
    _, configuration = configure(located(overrides, configuration))
    configuration.check()
    heal(project)
    sys.exit(run(project, configuration, context.args))
