"""Commands that analyse models: hidden states and the measures computed from them."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from isoscope.base import paths, processes
from isoscope.base.errors import InputError
from isoscope.platform.cli.once import LOOK, RUN
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
    check_device,
    check_free,
    cluster_of,
    configure,
    load,
    say,
)
from isoscope.states.choices import ALIGNMENTS, ANALYSES, DEFAULTS, MEASURES, SPACES_COMPARED, VECTORS, Settings

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
    if arm is None and seed is None and not load("base.kind").kind(settings.kind).stores:
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
            key="extraction.device",
            workers=workers or (root.measures.processes if on_cores else None),
            cluster=nodes,
            prepare=lambda: [load(f"states.{part}") for part in ("extract", "measure")],
        )
    shown = [str(folder) for folder in folders]
    common = Path(os.path.commonpath(shown))
    where = common.relative_to(project.folder) if common.is_relative_to(project.folder) else common
    line = f"states {study}: " + (shown[0] if len(shown) == 1 else f"{len(shown)} cells: {where}")
    say({"folders": shown}, as_json, line)


@app.command(rich_help_panel=LOOK)
def geometry(
    checkpoints: Annotated[
        list[str], typer.Argument(help="Folders or hub names (name@revision).", metavar="CHECKPOINT…")
    ],
    text: Annotated[Path, typer.Option(help="Sentences: txt (one per line), csv, tsv, jsonl or parquet.")],
    out: Annotated[Path, typer.Option(help="Folder for the page, the tables and the cache.")],
    column: Annotated[str | None, typer.Option(help="Column of the text [default: sentence or text].")] = None,
    labels: Annotated[str | None, typer.Option(help="Column of the classes.")] = None,
    analyses: Annotated[
        list[str],
        typer.Option(
            "--analysis",
            help=f"{', '.join(ANALYSES)}, {SPACES_COMPARED}; may be repeated [default: all but {SPACES_COMPARED}].",
        ),
    ] = [],  # noqa: B006
    measures: Annotated[
        list[str],
        typer.Option("--measure", help=f"{', '.join(MEASURES)}, or a plugin's; may be repeated [default: all]."),
    ] = [],  # noqa: B006
    vectors: Annotated[
        list[str],
        typer.Option(help=f"{', '.join(VECTORS)}; may be repeated [default: first (last of a decoder), mean, words]."),
    ] = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    sentences: Annotated[
        int, typer.Option(help="Maximum number of distinct sentences to draw.", min=4)
    ] = DEFAULTS.sentences,
    words: Annotated[int, typer.Option(help="Words to sample from the sentences.", min=1)] = DEFAULTS.words,
    attended: Annotated[int, typer.Option(help="Sentences in the attention pass.", min=1)] = DEFAULTS.attended,
    max_length: Annotated[int, typer.Option(help="Maximum tokens per sentence.", min=4)] = DEFAULTS.max_length,
    subsample: Annotated[
        int, typer.Option(help="Subsample size n of metrics that depend on n.", min=16)
    ] = DEFAULTS.subsample,
    draws: Annotated[int, typer.Option(help="Number of subsamples.", min=2)] = DEFAULTS.draws,
    confidence: Annotated[
        float, typer.Option(help="Coverage of intervals.", min=0.5, max=0.9999)
    ] = DEFAULTS.confidence,
    folds: Annotated[int, typer.Option(help="Cross-validation folds of the probes.", min=2)] = DEFAULTS.folds,
    alignment: Annotated[
        str, typer.Option(help=f"Alignment of planes across checkpoints of equal shape: {', '.join(ALIGNMENTS)}.")
    ] = DEFAULTS.alignment,
    seed: Annotated[int, typer.Option(help="Seed of the draws and of the random twin.", min=0)] = DEFAULTS.seed,
    batch_size: Annotated[int, typer.Option(help="Sentences per forward pass.", min=1)] = DEFAULTS.batch_size,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    precision: Annotated[str, typer.Option(help="fp32 or bf16.")] = "fp32",
    threads: Annotated[int, typer.Option(help="CPU threads; more than 1 helps large models only.", min=1)] = 1,
    as_json: AsJson = False,
) -> None:
    """Analyse any checkpoint on any sentences: tables, figures and one HTML page.

    Analyses: geometry, planes, probes, attention, the embedding block, spectra, persistence diagrams. Each checkpoint
    is compared with its twin with random weights. A second call into the same folder computes only what is missing; its
    page shows what that call asks for. Works outside a project. For a first look, in about a minute:
    --analysis measures --analysis planes. Every layer of one checkpoint against every layer of another, as in
    isoscope spaces: --analysis spaces.

    Example: isoscope geometry ./my-bert bert-base-uncased --text reviews.csv --column review --labels stars --out out
    """
    asked = dict(locals())
    from isoscope import plugins as known
    from isoscope.data.plain import read_texts

    # MLproject passes an empty text for an option that is not given.
    column, labels, analyses = column or None, labels or None, [one for one in analyses if one]

    for path in plugin:
        known.load(path)
    for name, values, allowed in (
        ("device", [device], ("cpu", "cuda")),
        ("precision", [precision], ("fp32", "bf16")),
        ("alignment", [alignment], ALIGNMENTS),
        ("vectors", vectors, VECTORS),
        ("analysis", analyses, (*ANALYSES, SPACES_COMPARED)),
        ("measure", measures, tuple(known.MEASURES)),
    ):
        if wrong := [one for one in values if one not in allowed]:
            raise InputError(f"--{name} {wrong[0]}: expected {', '.join(allowed)}")
    if "classes" in measures and labels is None:
        raise InputError("--measure classes: the texts have no classes; name their column with --labels")
    check_free(out, such_as="geometry")
    texts = read_texts(text, column=column, labels=labels)
    texts.check_enough()
    for note in (*([texts.left_out] if texts.left_out else []), *texts.notes):
        print(f"isoscope: {note}", file=sys.stderr)
    pages = load("platform.stages.page_folder")
    pages.check_out(out, pages.GEOMETRY)
    asked |= {
        "analyses": tuple(dict.fromkeys(analyses)) or ANALYSES,
        "measures": tuple(dict.fromkeys(measures)) or tuple(known.MEASURES),
        "vectors": tuple(dict.fromkeys(vectors)),
    }
    settings = Settings(**{name: asked[name] for name in Settings._fields if name in asked})
    check_device(device)
    found = load("states.given_checkpoints").find(checkpoints)
    grids = None
    with pages.page_folder(out, pages.GEOMETRY):
        given = (found, texts, settings, out / "cache")
        if SPACES_COMPARED in settings.analyses:
            grids = load("states.compared_checkpoints").grids(*given)
        tables, facts = load("states.checkpoint_tables").geometry(*given, grids=grids)
        pages.write_page(out, pages.GEOMETRY, facts, tables)
        shown = load("platform.report.checkpoint_page").page(out)
    made = {
        "summary": load("platform.report.checkpoint_page").text_of("geometry", tables, facts).data["summary"],
        "checkpoints": {one.name: one.given for one in found},
        "page": str(shown),
        "tables": sorted(map(str, out.glob("*.parquet"))),
        "left_out": texts.left_out,
    }
    say(made, as_json, f"geometry: {shown}")
