"""Commands to begin with: make a project, check and change its parameters, read the documentation."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from isoscope.base import built_in
from isoscope.base.errors import InputError
from isoscope.base.paths import CODE
from isoscope.platform.cli.options import (
    BEGIN,
    AsJson,
    Plugins,
    Said,
    Set,
    app,
    command,
    declared,
    load,
    project_here,
    say,
)
from isoscope.platform.cli.streams import complain

MOST_FAULTS = 20
"""Faults that `isoscope check` prints."""


@command(BEGIN, options=declared(built_in.load(built_in.GIVEN, "new").task))
def new(
    folder: Annotated[Path, typer.Argument(help="The project: a new folder, or an empty one.")],
    profile: Annotated[str | None, typer.Option(help="A pre-trained encoder for your text: minilm or bert.")] = None,
    **given: Any,
) -> Said:
    """Make a project: a git and DVC repository with a first study that runs in minutes. Works outside a project.

    The study compares two fusions in a model that predicts a class (--label), a score (--score) or several labels
    (--labels) of each text; without these, masked words. Your files are copied to texts/ in the project.

    Classes: isoscope new my-study --from reviews.csv --column review --label stars

    A score of pairs: isoscope new my-study --from pairs.csv --pair premise hypothesis --score similarity

    Several labels: isoscope new my-study --from posts.csv --labels tags --separator '|'

    Given splits: isoscope new my-study --train a.csv --validation b.csv --test c.csv --label topic

    Text alone: isoscope new my-study --from book.txt

    Example: isoscope new my-study --from hub:nyu-mll/glue:mrpc --pair sentence1 sentence2 --label label
    """
    made = load("platform.stages.new").new(folder, profile=profile, **given)
    lines = [
        f"{folder}: a git and DVC repository with the task {made.task!r}; its README.md says what is where",
        *(f"note: {note}" for note in made.notes),
        "next:",
        *([] if folder.resolve() == Path.cwd() else [f"  cd {shlex.quote(str(folder))}"]),
        f"  isoscope repro    # prepare, train,{' search,' * made.searches} analyse; then see reports/index.html",
        "  isoscope ui       # the runs in MLflow",
        "  isoscope docs     # the documentation",
    ]
    return {"folder": str(folder), "task": made.task, "notes": made.notes}, "\n".join(lines)


@app.command(rich_help_panel=BEGIN)
def check(
    overrides: Set = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Check that params.yaml, overlays, profiles, dvc.yaml, MLproject and code.yaml agree; list the faults.

    Example: isoscope check -S training.epochs=20
    """
    from isoscope.platform.config.across_studies import check_all
    from isoscope.platform.config.agreement import DVC, MLPROJECT, check_agreement
    from isoscope.platform.config.explain import Faults
    from isoscope.platform.config.load import Configuration

    folder, found = project_here().folder, Faults()
    configuration, resolved = None, 0
    with found.each():
        configuration = Configuration(folder, overrides, plugin, faults=found)
        resolved = check_all(configuration)
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


@app.command(rich_help_panel=BEGIN)
def docs(
    page: Annotated[str | None, typer.Argument(help="A page [default: list all pages].", metavar="PAGE")] = None,
    as_json: AsJson = False,
) -> None:
    """Show a page of the documentation, or list all pages. Works outside a project.

    An example of a plugin: isoscope docs examples/product.py > plugins/product.py

    Example: isoscope docs tutorial
    """
    from isoscope.platform.config.explain import nearest
    from isoscope.platform.config.new_project import source

    folder = source() / "docs"
    texts = {file.relative_to(folder).with_suffix("").as_posix(): file for file in sorted(folder.rglob("*.md"))}
    texts |= {f"examples/{file.name}": file for file in sorted(folder.glob("examples/*.py"))}
    if page is None:
        titles = {name: file.read_text("utf-8").partition("\n")[0].strip('"# ') for name, file in texts.items()}
        width = max(map(len, titles))
        lines = [f"  {name:{width}}  {title}" for name, title in titles.items()]
        say(titles, as_json, "\n".join(["isoscope docs PAGE:", *lines]))
        return
    if page not in texts:
        raise InputError(f"{page!r}: no such page{nearest(page, texts)}; for a list: isoscope docs")
    text = texts[page].read_text("utf-8")
    if as_json or not sys.stdout.isatty() or page.endswith(".py"):
        say({"page": page, "text": text}, as_json, text.rstrip())
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))
