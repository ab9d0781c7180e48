"""Commands for the stages of the pipeline, and `repro`, which runs them all."""

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from isoscope.base import paths, processes
from isoscope.base.errors import InputError
from isoscope.platform.cli.options import (
    CHANGES,
    CLUSTER,
    JOB,
    RUN,
    Arm,
    Cpus,
    Gpus,
    Here,
    OnCluster,
    Said,
    Set,
    Slurm,
    Study,
    Workers,
    app,
    command,
    configure,
    heal,
    here,
    load,
    project_here,
)
from isoscope.platform.cli.out_folders import replaceable

ANOTHER = "as another experiment (-S, --plugin or --seed)"
"""Why a result is not where the pipeline expects it."""


@command(RUN, *CHANGES)
def prepare(
    here: Here,
    task: Annotated[str, typer.Argument(help="A task of params.yaml.")],
    out: Annotated[Path | None, typer.Option(help="Write the data here.")] = None,
) -> Said:
    """Write a task's parquet files, manifest and tokenizer.

    They go to data/processed/TASK, which the other commands read. If -S changes them, --out is required.

    Example: isoscope prepare sentiment
    """
    from isoscope.platform.runs.prepared import overridden

    project, configuration, *_ = here
    data = configuration.data(task)
    output = replaceable(out, project, configuration.root.studies, of_run=False) if out else None
    # Other commands read a task's own folder, and DVC does not know about -S.
    if output is None and (names := overridden(configuration, task)):
        raise InputError(
            f"prepare {task}: -S changes {', '.join(names[:3])}, but data/processed/{task} must match params.yaml and "
            f"variants/task/{task}.yaml; give --out FOLDER, or run isoscope repro -S …, or define another task"
        )
    folder = load("platform.stages.prepare").prepare(data, task=task, project=project, output=output)
    return {"folder": str(folder)}, f"prepared {task}: {folder.relative_to(project.folder)}"


@command(RUN, *CLUSTER, "detach", *CHANGES, *JOB)
def train(
    here: Here,
    study: Study,
    arm: Arm = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of weights, batches and dropout [default: the study's].", min=0, max=2**31 - 1),
    ] = None,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="Publish the result here.")] = None,
    unpublished: Annotated[bool, typer.Option("--unpublished", hidden=True)] = False,
) -> Said:
    """Train the unfinished cells of a study in parallel; or one arm, or one arm with one seed.

    Run a stopped command again to resume. Results go to models/STUDY/ARM/seed-N. With -S, --plugin or a seed outside
    the study the run is another experiment: its result stays in .isoscope/runs/ unless --out is given.

    Example: isoscope train fusion additive --seed 0 -S training.epochs=2
    """
    project, configuration, placement, in_job = here
    alone = placement.cluster is None
    single = arm is not None and seed is not None
    if not single and out:
        raise InputError("--out takes one result; name the arm and its --seed")
    if not (single and alone) and processes.world_size() > 1:
        raise InputError("several processes can train only one run; name the arm and its --seed, without --cluster")
    asked = here.cells(study, arm, seed)
    output = replaceable(out, project, configuration.root.studies, of_run=True) if out else None
    here.begin(*([configuration.study(study).task] if asked else []))
    from isoscope.platform.stages import study_cells

    setup = study_cells.Setup(configuration, project, "train")
    placed: dict[str, Any] = {"workers": workers, "placement": placement}
    if processes.world_size() == 1:
        study_cells.train_starts(
            setup,
            asked,
            title=f"train {study}: runs to start from",
            **{**placed, "placement": placement._replace(detached=None)},
        )
    if single and alone:
        job = study_cells.training_job(setup, *asked[0])
        target = None if unpublished else output or study_cells.place(setup, paths.trained, *asked[0])
        other = target is None and not unpublished
        return _trained(job, target, project, waits=in_job, about=f" {ANOTHER}" * other)
    own = paths.trained(study, "any", 0).parents[1]
    (project.folder / own).mkdir(parents=True, exist_ok=True)
    folders = study_cells.train_cells(setup, asked, output, title=f"train {study}", **placed)
    if placement.detached:
        return {"submitted": placement.detached}, "\n".join([*placement.detached, "isoscope status lists them"])
    text = f"trained {study}: {len(folders)} cells"
    if all(folder.is_relative_to(project.folder / own) for folder in folders):
        text += f": {own}"
    else:
        text = "\n".join([f"{text}, {ANOTHER}:", *map(str, folders)])
    return {"folders": [*map(str, folders)]}, text


def _trained(job: Any, output: Path | None, project: Any, *, waits: bool, about: str) -> Said:
    """Train one run in this process; `waits`: for the process that holds it; `about`: why its place is another."""
    cells = load("platform.stages.study_cells")
    do = partial(load("platform.stages.train").train, job, output=output)
    folder = cells.when_free(do, patience=float(waits and cells.PATIENCE))
    if processes.rank():
        return None
    test = [one for one in load("platform.runs.output_files").read_metrics(folder) if one["name"].startswith("test/")]
    metrics, epoch = {one["name"]: one["value"] for one in test}, test[0]["epoch"]
    scores = ", ".join(f"{name} {value:.3f}" for name, value in metrics.items())
    text = f"trained {job.run.identity.study} {job.run.identity.title}{about}: {_below(project, folder)}"
    return {"folder": str(folder), "epoch": epoch, "metrics": metrics}, f"{text} (epoch {epoch}: {scores})"


def _below(project: Any, folder: Path) -> Path:
    """Return a folder as people read it: in the project, or as it is."""
    return folder.relative_to(project.folder) if folder.is_relative_to(project.folder) else folder


@command(RUN, *CLUSTER, "detach", *CHANGES, *JOB)
def states(
    here: Here,
    study: Study,
    arm: Arm = None,
    seed: Annotated[int | None, typer.Option(help="Only the run with this seed.", min=0, max=2**31 - 1)] = None,
    workers: Workers = None,
) -> Said:
    """Extract the hidden states of a study's runs at every snapshot, and measure them. Resumes where it stopped.

    Writes to data/hidden_states/STUDY/ARM/ and tables to data/measures/STUDY/ARM/. With -S or --plugin both stay in
    .isoscope/runs/. Another measure extracts nothing again. Without ARM and --seed: nothing, unless the study's kind
    reads them, or the study has states: true.

    Example: isoscope states fusion additive -S measures.alignment=procrustes
    """
    project, configuration, placement, in_job = here
    alone = placement.cluster is None
    settings = configuration.study(study)
    if seed is not None and seed not in settings.seeds:
        raise InputError(f"--seed {seed}: not among studies.{study}.seeds {[*settings.seeds]}; add it in params.yaml")
    unasked = arm is None and seed is None and not (settings.states or load("base.kind").kind(settings.kind).stores)
    asked = [] if unasked else here.cells(study, arm, seed)
    here.begin(*([settings.task] if asked else []))
    for place in (paths.extracted, paths.measured):
        project.folder.joinpath(place(study, "any", 0)).parents[1].mkdir(parents=True, exist_ok=True)
    if not asked:
        return {"folders": []}, f"states {study}: no cells selected"
    from isoscope.platform.stages import study_cells

    setup = study_cells.Setup(configuration, project, "states")
    if len(asked) == 1 and alone:
        with processes.StopSignal() as stop:
            do = partial(study_cells.states, setup, asked[0], stop=stop, processes=1 if in_job else None)
            folders: Sequence[Any] = [study_cells.when_free(do, patience=float(in_job and study_cells.PATIENCE))]
    else:
        folders = study_cells.states_cells(setup, asked, title=f"states {study}", workers=workers, placement=placement)
    if placement.detached:
        return {"submitted": placement.detached}, "\n".join([*placement.detached, "isoscope status lists them"])
    shown = [*map(str, folders)]
    several = f"{len(shown)} cells: {_below(project, Path(os.path.commonpath(shown)))}"
    return {"folders": shown}, f"states {study}: {shown[0] if len(shown) == 1 else several}"


@command(RUN)
def status() -> Said:
    """List the runs that were submitted to Slurm: job, node, state, run, and the file of its log.

    Example: isoscope status --json
    """
    runs = list(load("platform.executor.slurm").listed(project_here().slurm))
    under_way = [one for one in runs if one["state"] != "done"]
    lines = [f"{one['job']:10} {one['node'] or '-':12} {one['state']}: {one['run']}; {one['log']}" for one in under_way]
    lines.append(f"{len(runs)} submitted runs, {len(runs) - len(under_way)} done")
    return {"runs": runs}, "\n".join(lines)


@command(RUN, *CHANGES)
def analyse(here: Here, study: Study) -> Said:
    """Compare a study's arms: curves, scores with verdicts, and the tables and figures of its kind.

    Example: isoscope analyse fusion
    """
    asked, arms = here.configuration.study(study), {study: here.configuration.cells(study)}
    if not asked.seeds:
        load("platform.stages.nothing").write_nothing(study, here.project)
        return {"folder": None}, f"analysed {study}: nothing, because it has no seeds"
    here.begin(asked.task)
    return _analysed(here, "analysed", asked, study, arms)


@command(RUN, *CHANGES)
def compare(here: Here, name: Annotated[str, typer.Argument(help="A comparison of params.yaml.")]) -> Said:
    """Compare the runs of several studies: tables and figures.

    Example: isoscope compare spaces
    """
    from isoscope.platform.config.across_studies import check_comparison

    configuration = here.configuration
    asked = configuration.comparison(name)
    here.begin(*(configuration.study(study).task for study in asked.compared), *asked.tasks)
    check_comparison(configuration, name)
    return _analysed(here, "compared", asked, name, {study: configuration.arms(study) for study in asked.compared})


def _analysed(here: Here, done: str, asked: Any, name: str, arms: Any) -> Said:
    root = here.configuration.root
    sections = (root.analysis, root.reproduction, asked, root.studies)
    folder = load("platform.stages.analyse").analyse(*sections, name=name, arms=arms, project=here.project)
    return {"folder": str(folder)}, f"{done} {name}: {folder.relative_to(here.project.folder)}"


@command(RUN, "overrides")
def report(here: Here) -> Said:
    """Write reports/index.html: every figure on one page. Print the findings on the test split.

    Example: isoscope report -S 'report.title=Fusion on SST-2'
    """
    from isoscope.platform.config.across_studies import check_comparison

    configuration, root = here.configuration, here.configuration.root
    here.begin(*root.tasks)
    for name in root.comparisons:
        check_comparison(configuration, name)
    cells = {name: configuration.cells(name) for name, study in root.studies.items() if study.seeds}
    sections = (root.report, root.studies, root.comparisons, root.tasks)
    page, found = load("platform.stages.report").report(*sections, project=here.project, cells=cells)
    lines = []
    for study, said in found.items():
        texts = [said["answer"], said["best"], *said["findings"], *said["limits"]]
        lines += [f"{study}: {said['question']}", *(f"  {text}" for text in texts if text)]
    lines.append(f"report: {page.relative_to(here.project.folder)}")
    return {"page": str(page), "findings": found}, "\n".join(lines)


@app.command(rich_help_panel=RUN, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def repro(
    context: typer.Context,
    cluster: OnCluster = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    slurm: Slurm = None,
    overrides: Set = [],  # noqa: B006 - typer copies it
) -> None:
    """Run the pipeline with `dvc repro` and mirror it to MLflow. Further arguments go to DVC.

    With -S it runs as a DVC experiment (`dvc exp run -S …`), which can be compared and undone. --cluster applies to
    the stages train, states and search.

    Example: isoscope repro train@fusion
    """
    project, configuration, *_ = here(cluster, cpus, gpus, slurm, overrides=overrides)
    placed = {"CLUSTER": cluster, "CPUS_PER_RUN": cpus, "GPUS_PER_RUN": gpus, "SLURM": slurm}
    os.environ.update({f"ISOSCOPE_{name}": str(value) for name, value in placed.items() if value is not None})
    from isoscope.platform.config.across_studies import check_all
    from isoscope.platform.stages.repro import located
    from isoscope.platform.stages.repro import repro as run

    if overrides:
        _, configuration = configure(located(overrides, configuration))
    check_all(configuration)
    heal(project)
    sys.exit(run(project, configuration, context.args))
