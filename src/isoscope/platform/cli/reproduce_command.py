"""The command that compares results with published results."""

from pathlib import Path
from typing import Annotated, Any

import typer

from isoscope.base import paths
from isoscope.base.errors import InputError
from isoscope.platform.cli.once import LOOK
from isoscope.platform.cli.options import AsJson, app, configure, load, say


@app.command(rich_help_panel=LOOK)
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
    as_json: AsJson = False,
) -> None:
    """Compare a study's results with published results; exit code 1 if a comparison fails.

    Reads the tables of `isoscope analyse`, of a study of the kind isotropy (anisotropy) or dynamics (which parts hurt).
    Skips results that were published for another backbone, task or objective.

    `spaces` needs no project. It measures AvgSim of bert-base-cased by layer on the sentences of STS 2012 to 2016, as
    Ethayarajh 2019 did, and compares it with the curve recorded there. Both come from ISOSCOPE_HUB or the hub.

    Example: isoscope reproduce isotropy
    """
    if study == "spaces":
        find = load("states.given_checkpoints").find
        _reproduced(load("studies.spaces.checkpoint_curve").published_spaces(checkpoint, text, find=find), as_json)
        return
    if checkpoint or text:
        raise InputError("--checkpoint and --text are options of: isoscope reproduce spaces")
    project, configuration = configure([])
    kind, folder = configuration.study(study).kind, project.folder / paths.analysed(study)
    _reproduced(load("platform.results.published").reproduced_by(kind, folder), as_json)


def _reproduced(found: Any, as_json: bool) -> None:
    """Print a comparison with published numbers."""
    say({"cells": found.cells}, as_json, found.text)
    if found.failed:
        raise typer.Exit(1)
