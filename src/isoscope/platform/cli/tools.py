"""Tools around the pipeline: MLflow mirror and UI, gc, configuration, profiles and JSON schema."""

import contextlib
import json
import sys
from typing import Annotated

import typer

from isoscope.base.errors import InputError
from isoscope.base.paths import CODE
from isoscope.platform.cli.once import BEGIN, KEEP_HOUSE, LOOK
from isoscope.platform.cli.options import AsJson, Here, Plugins, Said, Set, app, command, heal, load, project_here, say
from isoscope.platform.cli.streams import complain

MOST_FAULTS = 20
"""Faults that `isoscope check` prints."""


@command(KEEP_HOUSE)
def mirror(
    uri: Annotated[str | None, typer.Option(help="MLflow server [default: MLFLOW_TRACKING_URI or mlflow.db].")] = None,
    follow: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> Said:
    """Send missing records to MLflow, and outputs restored from DVC's cache. Repeating changes nothing.

    Example: isoscope mirror --uri http://127.0.0.1:5000
    """
    project = project_here()
    from isoscope.platform.stages.mirror import follow_records, mirror_all

    if follow is not None:
        follow_records(project, uri, None if follow == "all" else follow)
        return None
    heal(project)
    sent = mirror_all(project, uri)
    line = (
        f"mirrored {sent['runs']} runs to {sent['uri']}: {sent['points']} points and {sent['models']} models were new"
    )
    return sent, line


@command(KEEP_HOUSE)
def reconcile() -> Said:
    """Mark runs whose process died as KILLED, here and in MLflow. Live runs are not touched.

    Commands that write or show runs do this when they start.

    Example: isoscope reconcile
    """
    project = project_here()
    healed = heal(project)
    if healed:
        from isoscope.platform.stages.mirror import mirror_all

        mirror_all(project, None)
    lines = [f"{one.title} ({one.digest[:12]}): KILLED" for one in healed] or ["no run to mark as KILLED"]
    return {"killed": [one.digest for one in healed]}, "\n".join(lines)


@command(KEEP_HOUSE)
def accept(
    here: Here,
    studies: Annotated[list[str] | None, typer.Argument(help="Studies of params.yaml [default: all].")] = None,
) -> Said:
    """Keep finished runs valid after a code change that changes no number.

    Recomputes the golden trace (the first 8 updates) of each arm. It must equal the trace of the finished run bit for
    bit. Otherwise nothing is accepted, and the exit code is 1.

    Example: isoscope accept fusion
    """
    project, configuration, _ = here
    cells = [cell for name in studies or configuration.root.studies for cell in here.cells(name)]
    here.begin(*(configuration.study(name).task for name, *_ in cells))
    stage = load("platform.stages.accept")
    from isoscope.platform.stages.study_cells import Setup, training_job

    setup = Setup(configuration, project, "train")
    found = stage.accept_all(lambda: [training_job(setup, *one) for one in cells], project=project)
    lines = [f"{one.title}: accepted, its golden trace is the same" for one in found]
    return {"accepted": [one.digest for one in found]}, "\n".join(lines or ["nothing to accept"])


@command(KEEP_HOUSE)
def gc(
    idle_days: Annotated[
        float, typer.Option(help="Remove unfinished work that is unchanged for this many days.", min=0)
    ] = 30,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")] = False,
) -> Said:
    """Free disk space: remove from .isoscope/ results that DVC caches, abandoned work, and leftovers.

    Never removed: records, outputs that dvc.lock names and DVC's cache lacks, runs by hand, accepted runs (see accept),
    and the work of a live process. Commands restore removed results when they need them.

    Example: isoscope gc --dry-run
    """
    from isoscope.base.symlinks import dvc_cache
    from isoscope.platform.runs.gc import clear

    project = project_here()
    # First, because the disk may be full: `heal` writes.
    pieces, kept = clear(project, cache=dvc_cache(project), idle_days=idle_days, dry_run=dry_run)
    heal(project)
    verb = "would be removed" if dry_run else "removed"
    lines = [
        f"{verb}: {piece.path.relative_to(project.state)} ({piece.size / 1e6:.1f} MB): {piece.reason}"
        for piece in pieces
    ]
    total = sum(piece.size for piece in pieces)
    remains = "would then hold" if dry_run else "holds"
    lines.append(f"{total / 1e6:.1f} MB {verb}; .isoscope {remains} {kept / 1e6:.1f} MB")
    removed = [str(piece.path.relative_to(project.state)) for piece in pieces]
    return {"removed": removed, "bytes": total, "kept_bytes": kept, "dry_run": dry_run}, "\n".join(lines)


@app.command(rich_help_panel=BEGIN)
def check(
    overrides: Set = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Check that params.yaml, overlays, profiles, dvc.yaml, MLproject and code.yaml agree; list the faults.

    Example: isoscope check -S training.epochs=20
    """
    from isoscope.platform.config.agreement import DVC, MLPROJECT, check_agreement
    from isoscope.platform.config.explain import Faults
    from isoscope.platform.config.load import Configuration

    folder, found = project_here().folder, Faults()
    configuration, resolved = None, 0
    with found.each():
        configuration = Configuration(folder, overrides, plugin, faults=found)
        resolved = configuration.check()
    commands = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    commands |= {group.name for group in app.registered_groups if group.name}
    profiles = check_agreement(folder, configuration, commands, found)
    if found.lines:
        if as_json:
            print(json.dumps({"faults": found.lines}))
        more = len(found.lines) - MOST_FAULTS
        shown = [*found.lines[:MOST_FAULTS], *([f"and {more} more faults; --json prints all"] if more > 0 else [])]
        for fault in shown:
            complain(fault)
        raise typer.Exit(2)
    files = " and ".join(str(file) for file in (DVC, MLPROJECT, CODE) if (folder / file).exists())
    line = f"{resolved} tasks and arms, {profiles} profiles, {files} agree"
    say({"cells": resolved, "profiles": profiles}, as_json, line)


@app.command(rich_help_panel=BEGIN)
def profile(
    name: Annotated[
        str | None,
        typer.Argument(help="A file of profiles/ or profiles/results/, or 'embedded' for the committed params.yaml."),
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Restore the committed params.yaml.")] = False,
) -> None:
    """Apply a profile to params.yaml, keep its comments, and show the difference.

    Example: isoscope profile minilm
    """
    from isoscope.platform.config.profiles import apply, known, restore

    folder = project_here().folder
    if reset == (name is not None):
        raise InputError(f"profile: give a name or --reset; known: embedded, {', '.join(known(folder))}")
    print(restore(folder) if reset or name == "embedded" else apply(folder, str(name)), end="")


@app.command(rich_help_panel=BEGIN)
def schema() -> None:
    """Print the JSON schema of params.yaml and overlays, for editors.

    Example: isoscope schema > params.schema.json
    """
    from isoscope.platform.config.kinds import json_schema

    print(json.dumps(json_schema(), indent=1, sort_keys=True))


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
