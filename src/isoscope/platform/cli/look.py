"""Commands that look at models and runs. The science declares the options of those that make a page of checkpoints."""

import contextlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from isoscope.base import built_in, environment, paths
from isoscope.base.errors import InputError
from isoscope.platform.cli.options import (
    LOOK,
    Plugins,
    Said,
    app,
    command,
    configure,
    declared,
    heal,
    load,
    project_here,
)
from isoscope.platform.cli.out_folders import check_free

FOLDERS = "Folders or hub names (name@revision)."
Out = Annotated[Path, typer.Option(help="Folder for all files that are written.")]


def command_on_checkpoints(name: str, given_as: str = FOLDERS, **folder: Any) -> Callable[..., None]:
    """Register the command of this name; `folder`: the default of --out, which is required without it.

    `given_as`: help for the checkpoints.
    """
    science = built_in.load(built_in.GIVEN, name)
    read = getattr(science, name)

    def made(
        checkpoints: Annotated[list[str], typer.Argument(help=given_as, metavar="CHECKPOINT…")],
        plugin: Plugins = [],  # noqa: B006 - typer copies it
        **given: Any,
    ) -> Said:
        from isoscope import plugins

        for path in plugin:
            plugins.load(path)
        if (out := given.pop("out")) is not None:
            check_free(out, such_as=name)
        notes, make = read(**given)
        for note in notes:
            print(f"isoscope: {note}", file=sys.stderr)
        pages = load("platform.stages.page_folder")
        with pages.page_folder(out, name) if out else contextlib.nullcontext():
            environment.load(built_in.STAGES[name])
            tables, facts, values, told, runs = make(checkpoints, (out or Path()) / "cache")
            if out is not None:
                pages.write_page(out, name, facts, tables, values)
            if told is None:
                page = load("platform.report.checkpoint_page").page(out)
        if runs:
            _log(name, runs)
        if told is not None:
            numbers, text, failed = told
            return {"out": out and str(out), **numbers}, f"{name}: {f'{out}: ' * (out is not None)}{text}", failed
        found = {
            "summary": load("platform.report.checkpoint_page").text_of(name, tables, facts).data.get("summary", []),
            "checkpoints": facts["given"],
            "page": str(page),
            "tables": sorted(map(str, out.glob("*.parquet"))),
            "left_out": facts["left_out"],
        }
        return found, f"{name}: {page}"

    made.__doc__ = read.__doc__
    where = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, annotation=Out, **folder)
    options = declared(read, *filter(None, [science.OPTIONS.get(name)]))
    return command(LOOK, name=name, options=[where, *options])(made)


def _log(name: str, runs: tuple[Any, ...]) -> None:
    """Log what is found of checkpoints as runs of the project; outside a project, say that there are none."""
    try:
        project = project_here()
    except InputError as error:
        print(f"isoscope: no run in MLflow: {error}", file=sys.stderr)
    else:
        load("platform.stages.checkpoint_runs").log_runs(name, project, runs)


geometry, spaces = map(command_on_checkpoints, ("geometry", "spaces"))
translate = command_on_checkpoints("translate", "One folder: of a translation model of a run, or of a hybrid.")
evaluate = command_on_checkpoints("evaluate", default=None)


@command(LOOK)
def reproduce(
    study: Annotated[
        str, typer.Argument(help="A study of params.yaml, analysed; or spaces: AvgSim of bert-base-cased.")
    ],
    checkpoint: Annotated[
        str | None, typer.Option(help="Of spaces: another folder or hub name; no verdict.", metavar="CHECKPOINT")
    ] = None,
    text: Annotated[
        Path | None, typer.Option(help="Of spaces: other sentences (txt, csv, tsv, jsonl, parquet); no verdict.")
    ] = None,
) -> Said:
    """Compare a study's results with published results; exit code 1 if a comparison fails.

    Reads the tables of `isoscope analyse`, of a study of the kind isotropy (anisotropy) or dynamics (which parts hurt).
    Skips results that were published for another backbone, task or objective.

    `spaces` needs no project. It measures three metrics of bert-base-cased by layer on the sentences of STS 2012 to
    2016, as Ethayarajh 2019 did, and compares them with the curves recorded there. Both come from ISOSCOPE_HUB or the
    hub.

    Example: isoscope reproduce isotropy
    """
    if study == "spaces":
        find = load("states.given_checkpoints").find
        found = load("studies.spaces.published_curve").published_spaces(checkpoint, text, find=find)
    elif checkpoint or text:
        raise InputError("--checkpoint and --text are options of: isoscope reproduce spaces")
    else:
        project, configuration = configure([])
        kind, folder = configuration.study(study).kind, project.folder / paths.analysed(study)
        found = load("platform.results.published").reproduced_by(kind, folder)
    return {"cells": found.cells}, found.text, found.failed


@app.command(rich_help_panel=LOOK)
def ui(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1.", min=1, max=65535)] = 5000,
) -> None:
    """Browse the runs in MLflow on 127.0.0.1.

    Example: isoscope ui --port 5001
    """
    from isoscope.platform.stages.mirror import mirror_all, serve

    project = project_here()
    if heal(project):
        mirror_all(project, None)
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(serve(project, port))
