"""The command of the stage that looks into models: hidden states, and the measures computed from them."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from isoscope.base import paths, processes
from isoscope.platform.cli.once import RUN
from isoscope.platform.cli.options import (
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
    begin,
    cluster_of,
    configure,
    load,
    say,
)

Seed = Annotated[int | None, typer.Option(help="Only the run with this seed.", min=0, max=2**31 - 1)]


@app.command(rich_help_panel=RUN)
def states(
    study: Study,
    arm: Arm = None,
    seed: Seed = None,
    workers: Workers = None,
    cluster: OnCluster = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    overrides: Set = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Extract the hidden states of a study's runs at every snapshot, and measure them. Resumes where it stopped.

    Writes to data/hidden_states/STUDY/ARM/ and tables to data/measures/STUDY/ARM/. With -S or --plugin both stay in
    .isoscope/runs/. Another measure extracts nothing again. Without ARM and --seed: nothing, unless the study's kind
    reads them.

    Example: isoscope states fusion additive -S measures.alignment=procrustes
    """
    nodes = cluster_of(cluster, cpus, gpus)
    project, configuration = configure(overrides, plugin)
    settings, root = configuration.study(study), configuration.root
    arms = configuration.cells(study) if arm is None else {arm: configuration.cell(study, arm)}
    seeds = settings.seeds if seed is None else (seed,)
    if arm is None and seed is None and not load("studies.registry").kind(settings.kind).stores:
        seeds = ()
    cells = [(study, one, number) for one in arms for number in seeds]
    begin(project, configuration, *([settings.task] if cells else []))
    for place in (paths.extracted, paths.measured):
        project.folder.joinpath(place(study, "any", 0)).parents[1].mkdir(parents=True, exist_ok=True)
    if not cells:
        say({"folders": []}, as_json, f"states {study}: no cells selected")
        return
    from isoscope.platform.stages import study_cells

    setup = study_cells.Setup(configuration, project, "states")
    if len(cells) == 1 and nodes is None:
        with processes.StopSignal() as stop:
            folders: Any = [study_cells.states(setup, cells[0], stop=stop)]
    else:
        on_cores = nodes is None and root.extraction.device == "cpu"
        folders = study_cells.carry_out_all(
            study_cells.states_cells(setup, cells),
            title=f"states {study}",
            project=project,
            threads=max(filter(None, (root.extraction.threads, root.measures.threads)), default=None),
            device=root.extraction.device,
            science=("extract", "measure"),
            key="extraction.device",
            workers=workers or (root.measures.processes if on_cores else None),
            cluster=nodes,
        )
    shown = [str(folder) for folder in folders]
    common = Path(os.path.commonpath(shown))
    where = common.relative_to(project.folder) if common.is_relative_to(project.folder) else common
    line = f"states {study}: " + (shown[0] if len(shown) == 1 else f"{len(shown)} cells: {where}")
    say({"folders": shown}, as_json, line)
