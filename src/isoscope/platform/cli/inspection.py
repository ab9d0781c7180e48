"""Commands that analyse models: hidden states and the measures computed from them."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from isoscope.base.errors import InputError
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


@app.command()
def extract(
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
    """Extract the hidden states of a study's runs: the probe set, at every snapshot. Resumes where it stopped.

    Writes to data/hidden_states/STUDY/ARM/; with -S or --plugin they stay in .isoscope/runs/.

    Example: isoscope extract fusion additive
    """
    nodes = cluster_of(cluster, cpus, gpus)
    _over_cells("extract", (study, arm, seed), (overrides, plugin), workers, nodes, as_json)


@app.command()
def measure(
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
    """Compute the measures of hidden states: geometry, feature dynamics, attention, spectra.

    Writes tables to data/measures/STUDY/ARM/; with -S or --plugin they stay in .isoscope/runs/.

    Example: isoscope measure fusion additive -S measures.alignment=procrustes
    """
    nodes = cluster_of(cluster, cpus, gpus)
    _over_cells("measure", (study, arm, seed), (overrides, plugin), workers, nodes, as_json)


@app.command()
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
    from isoscope import plugins as known
    from isoscope.data.plain import read_texts

    for path in plugin:
        known.load(path)
    for name, values, allowed in (
        ("device", [device], ("cpu", "cuda")),
        ("precision", [precision], ("fp32", "bf16")),
        ("alignment", [alignment], ALIGNMENTS),
        ("vectors", vectors, VECTORS),
        ("analysis", analyses, (*ANALYSES, SPACES_COMPARED)),
        ("measure", measures, (*MEASURES, *known.MEASURES)),
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
    stage, built_in = load("platform.stages.geometry"), load("states.measures").BUILT_IN
    load("platform.stages.page_folder").check_out(out, stage.PAGE)
    settings = Settings(
        analyses=tuple(dict.fromkeys(analyses)) or ANALYSES,
        measures=tuple(dict.fromkeys(measures)) or (*built_in, *known.MEASURES),
        vectors=tuple(dict.fromkeys(vectors)),
        alignment=alignment,
        sentences=sentences,
        words=words,
        attended=attended,
        max_length=max_length,
        subsample=subsample,
        draws=draws,
        confidence=confidence,
        folds=folds,
        seed=seed,
        batch_size=batch_size,
        device=device,
        precision=precision,
        threads=threads,
    )
    check_device(device)
    found = stage.find(checkpoints)
    grids = None
    with load("platform.stages.page_folder").page_folder(out, stage.PAGE):
        if SPACES_COMPARED in settings.analyses:
            grids = load("platform.stages.spaces").grids(found, texts, settings, out / "cache")
        tables = stage.geometry(found, texts, settings, out, grids=grids)
        shown = load("platform.report.checkpoint_page").page(out)
    made = {
        "summary": load("platform.report.checkpoint_numbers").summary(tables),
        "checkpoints": {one.name: one.given for one in found},
        "page": str(shown),
        "tables": sorted(map(str, out.glob("*.parquet"))),
        "left_out": texts.left_out,
    }
    say(made, as_json, f"geometry: {shown}")


def _over_cells(
    verb: str,
    asked: tuple[str, str | None, int | None],
    changed: tuple[list[str], list[Path]],
    workers: int | None,
    nodes: Any,
    as_json: bool,
) -> None:
    """Run `extract` or `measure` for the selected cells: all arms or one, all seeds or one.

    A single cell runs in this process. Without arm and seed (as in the pipeline), a study has cells only if its kind
    reads them.
    """
    project, configuration = configure(*changed)
    study, arm, seed = asked
    settings = configuration.study(study)
    arms = configuration.cells(study) if arm is None else {arm: configuration.cell(study, arm)}
    seeds = settings.seeds if seed is None else (seed,)
    if arm is None and seed is None and not load("studies.registry").kind(settings.kind).stores:
        seeds = ()
    cells = [(study, one, number) for one in arms for number in seeds]
    begin(project, configuration, *([settings.task] if cells else []))
    from isoscope.base.processes import StopSignal
    from isoscope.platform.stages.study_cells import INSIDE, Setup, carry_out_all, inside_cells, look

    project.folder.joinpath(INSIDE[verb][1](study, "any", 0)).parents[1].mkdir(parents=True, exist_ok=True)
    if not cells:
        say({"folders": []}, as_json, f"{verb} {study}: no cells selected")
        return
    load(f"platform.stages.{verb}")
    setup = Setup(configuration, project, verb)
    if len(cells) == 1 and nodes is None:
        with StopSignal() as stop:
            folders: Any = [look(setup, cells[0], stop=stop)]
    else:
        section = getattr(configuration.root, INSIDE[verb][0])
        if verb == "measure" and nodes is None:
            workers = workers or section.processes
        folders = carry_out_all(
            inside_cells(setup, cells),
            title=f"{verb} {study}",
            project=project,
            threads=section.threads,
            device=getattr(section, "device", "cpu"),
            key="extraction.device",
            workers=workers,
            cluster=nodes,
        )
    shown = [str(folder) for folder in folders]
    if len(shown) == 1:
        where = shown[0]
    else:
        common = Path(os.path.commonpath(shown))
        inside = common.is_relative_to(project.folder)
        where = f"{len(shown)} cells: {common.relative_to(project.folder) if inside else common}"
    say({"folders": shown}, as_json, f"{verb} {study}: {where}")
