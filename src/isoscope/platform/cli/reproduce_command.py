"""The command that compares results with published results."""

from collections.abc import Sequence
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
        str, typer.Argument(help="A study of params.yaml, charted or analysed; or spaces: AvgSim of bert-base-cased.")
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

    Reads the tables of `isoscope chart` (anisotropy) or `isoscope analyse` (which parts hurt). Skips results that were
    published for another backbone, task or objective.

    `spaces` needs no project. It measures AvgSim of bert-base-cased by layer on the sentences of STS 2012 to 2016, as
    Ethayarajh 2019 did, and compares it with the curve recorded there. Both come from ISOSCOPE_HUB or the hub.

    Example: isoscope reproduce isotropy
    """
    if study == "spaces":
        _reproduced([load("platform.stages.published_spaces").published_spaces(checkpoint, text)], "", as_json)
        return
    if checkpoint or text:
        raise InputError("--checkpoint and --text are options of: isoscope reproduce spaces")
    project, configuration = configure([])
    cells = [found.cell for found in configuration.cells(study).values()]
    registry = load("studies.registry")
    found = registry.reproduced(configuration.study(study), cells, project.folder / paths.analysed(study))
    _reproduced(found, f"{study}: no runs to compare: {_lacks(configuration, study)}", as_json)


def _reproduced(found: Sequence[Any], nothing: str, as_json: bool) -> None:
    """Print comparisons with published results; `nothing`: what to say if there are none."""
    text = "\n\n".join(one.text for one in found) or nothing
    say({"cells": [cell for one in found for cell in one.cells]}, as_json, text)
    if any(one.failed for one in found):
        raise typer.Exit(1)


def _lacks(configuration: Any, study: str) -> str:
    """Return why a study has no table that could be compared with a published one."""
    if not configuration.study(study).seeds:
        return f"set studies.{study}.seeds"
    return f"add chart to studies.{study}.looks (anisotropy), or allocated to its settings (which parts hurt)"
