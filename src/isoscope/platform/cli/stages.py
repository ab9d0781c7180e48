"""Commands for the stages of the pipeline, and `repro`, which runs them all."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from isoscope.base import paths, processes
from isoscope.base.errors import InputError
from isoscope.platform.cli.once import RUN
from isoscope.platform.cli.options import (
    PREPARED,
    TRAINED,
    Arm,
    AsJson,
    Cpus,
    Gpus,
    OnCluster,
    Plugins,
    Set,
    Study,
    Workers,
    app,
    as_stage,
    begin,
    cluster_of,
    configure,
    heal,
    load,
    replaceable,
    say,
)


@app.command(rich_help_panel=RUN)
def prepare(
    task: Annotated[str, typer.Argument(help="A task of params.yaml.")],
    overrides: Set = [],  # noqa: B006 - typer copies it
    plugin: Plugins = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(help="Write the data here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a task's parquet files, manifest and tokenizer.

    They go to data/processed/TASK, which the other commands read. If -S changes them, --out is required.

    Example: isoscope prepare sentiment
    """
    from isoscope.platform.runs.prepared import overridden

    project, configuration = configure(overrides, plugin)
    data = configuration.data(task)
    output = replaceable(out, project.folder, configuration.root.studies, PREPARED) if out else None
    # Other commands read a task's own folder, and DVC does not know about -S.
    if output is None and (names := overridden(configuration, task)):
        raise InputError(
            f"prepare {task}: -S changes {', '.join(names[:3])}, but data/processed/{task} must match params.yaml and "
            f"variants/task/{task}.yaml; give --out FOLDER, or run isoscope repro -S …, or define another task"
        )
    as_stage()
    folder = load("platform.stages.prepare").prepare(data, task=task, project=project, output=output)
    say({"folder": str(folder)}, as_json, f"prepared {task}: {folder.relative_to(project.folder)}")


@app.command(rich_help_panel=RUN)
def train(
    study: Study,
    arm: Arm = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of weights, batches and dropout [default: the study's].", min=0, max=2**31 - 1),
    ] = None,
    workers: Workers = None,
    cluster: OnCluster = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    overrides: Set = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(help="Publish the result here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train the unfinished cells of a study in parallel; or one arm, or one arm with one seed.

    Run a stopped command again to resume. Results go to models/STUDY/ARM/seed-N. With -S, --plugin or a seed outside
    the study the run is another experiment: its result stays in .isoscope/runs/ unless --out is given.

    Example: isoscope train fusion additive --seed 0 -S training.epochs=2
    """
    nodes = cluster_of(cluster, cpus, gpus)
    project, configuration = configure(overrides, plugin)
    settings = configuration.study(study)
    single = arm is not None and seed is not None
    if not single and out:
        raise InputError("--out takes one result; name the arm and its --seed")
    if (not single or nodes) and processes.world_size() > 1:
        raise InputError("several processes can train only one run; name the arm and its --seed, without --cluster")
    arms = configuration.cells(study) if arm is None else {arm: configuration.cell(study, arm)}
    asked = [(study, name, one) for name in arms for one in (settings.seeds if seed is None else (seed,))]
    output = replaceable(out, project.folder, configuration.root.studies, TRAINED) if out else None
    begin(project, configuration, *([settings.task] if single or settings.seeds else []))
    from isoscope.platform.stages.study_cells import (
        Setup,
        carry_out_all,
        place,
        train_starts,
        training_cells,
        training_job,
    )

    setup = Setup(configuration, project, "train")
    if processes.world_size() == 1:
        title = f"train {study}: runs to start from"
        train_starts(setup, asked, title=title, workers=workers, cluster=nodes)
    if single and nodes is None:
        job = training_job(setup, *asked[0])
        _train_one(job, output or place(setup, paths.trained, *asked[0]), project, as_json)
        return
    (project.folder / paths.trained(study, "any", 0)).parents[1].mkdir(parents=True, exist_ok=True)
    cells, (threads, device) = training_cells(setup, asked, output)
    folders = carry_out_all(
        cells,
        title=f"train {study}",
        project=project,
        threads=threads,
        device=device,
        workers=workers,
        cluster=nodes,
    )
    say({"folders": [str(folder) for folder in folders]}, as_json, _trained(study, folders, project))


def _trained(study: str, folders: Sequence[Path], project: Any) -> str:
    """Return where the results are: in the study's folder, or of another experiment in the store of runs."""
    text, own = f"trained {study}: {len(folders)} cells", paths.trained(study, "any", 0).parents[1]
    if all(folder.is_relative_to(project.folder / own) for folder in folders):
        return f"{text}: {own}"
    return "\n".join([f"{text}, as another experiment (-S, --plugin or --seed):", *map(str, folders)])


def _train_one(job: Any, output: Path | None, project: Any, as_json: bool) -> None:
    folder = load("platform.stages.train").train(job, output=output)
    shown = folder.relative_to(project.folder) if folder.is_relative_to(project.folder) else folder
    if not processes.rank():
        test = [one for one in load("platform.runs.restored").read_metrics(folder) if one["name"].startswith("test/")]
        metrics, epoch = {one["name"]: one["value"] for one in test}, test[0]["epoch"]
        scores = ", ".join(f"{name} {value:.3f}" for name, value in metrics.items())
        text = f"trained {job.run.identity.study} {job.run.identity.title}: {shown} (epoch {epoch}: {scores})"
        say({"folder": str(folder), "epoch": epoch, "metrics": metrics}, as_json, text)


@app.command(rich_help_panel=RUN)
def analyse(
    study: Study,
    overrides: Set = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Compare a study's arms: curves, scores with verdicts, and the tables and figures of its kind.

    Example: isoscope analyse fusion
    """
    as_stage()
    project, configuration = configure(overrides, plugin)
    asked, arms = configuration.study(study), {study: configuration.cells(study)}
    if not asked.seeds:
        load("platform.stages.nothing").write_nothing(study, project)
        say({"folder": None}, as_json, f"analysed {study}: nothing, because it has no seeds")
        return
    begin(project, configuration, asked.task)
    _analyse(project, configuration, "analysed", asked, study, arms, as_json)


@app.command(rich_help_panel=RUN)
def compare(
    name: Annotated[str, typer.Argument(help="A comparison of params.yaml.")],
    overrides: Set = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Compare the runs of several studies: tables and figures.

    Example: isoscope compare spaces
    """
    from isoscope.platform.config.comparing import check_comparison

    as_stage()
    project, configuration = configure(overrides, plugin)
    asked = configuration.comparison(name)
    tasks = [configuration.study(study).task for study in asked.compared]
    begin(project, configuration, *tasks, *asked.tasks)
    check_comparison(configuration, name)
    arms = {study: configuration.arms(study) for study in asked.compared}
    _analyse(project, configuration, "compared", asked, name, arms, as_json)


def _analyse(project: Any, configuration: Any, done: str, asked: Any, name: str, arms: Any, as_json: bool) -> None:
    root = configuration.root
    sections = (root.analysis, root.reproduction, asked, root.studies)
    folder = load("platform.stages.analyse").analyse(*sections, name=name, arms=arms, project=project)
    say({"folder": str(folder)}, as_json, f"{done} {name}: {folder.relative_to(project.folder)}")


@app.command("chart", hidden=True)
@app.command("explore", hidden=True)
def _now_analyse(study: Study) -> None:
    """Name the command that took their place."""
    pipeline = "in a dvc.yaml that has them, take that of a project of: isoscope new"
    raise InputError(f"chart and explore are part of analyse; run: isoscope analyse {study} ({pipeline})")


@app.command(rich_help_panel=RUN)
def report(
    overrides: Set = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Write reports/index.html: every figure on one page. Print the findings on the test split.

    Example: isoscope report -S 'report.title=Fusion on SST-2'
    """
    from isoscope.platform.config.comparing import check_comparison

    project, configuration = configure(overrides)
    root = configuration.root
    begin(project, configuration, *root.tasks)
    for name in root.comparisons:
        check_comparison(configuration, name)
    cells = {
        name: {arm: cell.tree for arm, cell in configuration.cells(name).items()}
        for name, study in root.studies.items()
        if study.seeds
    }
    page, found = load("platform.stages.report").report(
        root.report, root.studies, root.comparisons, root.tasks, project=project, cells=cells
    )
    lines = []
    for study, said in found.items():
        texts = [said["answer"], said["best"], *said["findings"], *said["limits"]]
        lines += [f"{study}: {said['question']}", *(f"  {text}" for text in texts if text)]
    lines.append(f"report: {page.relative_to(project.folder)}")
    say({"page": str(page), "findings": found}, as_json, "\n".join(lines))


@app.command(rich_help_panel=RUN, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def repro(
    context: typer.Context,
    cluster: OnCluster = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    overrides: Set = [],  # noqa: B006
) -> None:
    """Run the pipeline with `dvc repro` and mirror it to MLflow. Further arguments go to DVC.

    With -S it runs as a DVC experiment (`dvc exp run -S …`), which can be compared and undone. --cluster applies to
    the stages train, states and search.

    Example: isoscope repro train@fusion
    """
    cluster_of(cluster, cpus, gpus)
    placed = {"ISOSCOPE_CLUSTER": cluster, "ISOSCOPE_CPUS_PER_RUN": cpus, "ISOSCOPE_GPUS_PER_RUN": gpus}
    os.environ.update({name: str(value) for name, value in placed.items() if value is not None})
    from isoscope.platform.stages.repro import located
    from isoscope.platform.stages.repro import repro as run

    as_stage()
    project, configuration = configure(overrides)
    if overrides:
        _, configuration = configure(located(overrides, configuration))
    configuration.check()
    heal(project)
    sys.exit(run(project, configuration, context.args))
