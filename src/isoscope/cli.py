"""The command line: every stage of the pipeline and what surrounds it."""

import contextlib
import gc
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from isoscope.errors import InputError, RunError

app = typer.Typer(
    name="isoscope",
    help="Tracked experiments on the geometry of transformer representations.",
    epilog="Start with: isoscope repro",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich alone would double the time of --help
    context_settings={"help_option_names": ["-h", "--help"]},
)

Set = Annotated[
    list[str],
    typer.Option(
        "-S",
        "--set",
        metavar="[FILE:]NAME=VALUE",
        help="Set one number for this command; may be repeated.",
    ),
]
Plugins = Annotated[
    list[Path], typer.Option("--plugin", metavar="FILE", help="A file with fusions or data sets of one's own.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]


def main() -> None:
    """Run the command line: 0 well, 1 failed, 2 wrong input, 128 + n stopped by signal n."""
    from isoscope.guard import StoppedError, run_own_tree

    run_own_tree()
    # An inherited active run would otherwise swallow every run of ours; it becomes their parent.
    if run := os.environ.pop("MLFLOW_RUN_ID", None):
        os.environ.setdefault("ISOSCOPE_PARENT_RUN", run)
    try:
        app()
    except InputError as error:
        _fail(str(error), 2)
    except RunError as error:
        _fail(str(error), 1)
    except StoppedError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def _fail(line: str, code: int) -> None:
    print(f"isoscope: {line}", file=sys.stderr)
    sys.exit(code)


def _configuration(overrides: list[str], plugins: list[Path] | None = None) -> tuple[Any, Any]:
    """The project around the working folder and its configuration, checked whole before anything heavy is imported."""
    from isoscope.config.load import Configuration
    from isoscope.paths import find_project

    project = find_project()
    return project, Configuration(project.folder, overrides, plugins or [])


def _as_stage() -> None:
    """Inside the pipeline: end when DVC ends."""
    if "DVC_STAGE" in os.environ:
        from isoscope.guard import die_with, starter

        die_with(starter())


@contextlib.contextmanager
def _importing() -> Iterator[None]:
    """Import heavy libraries without collecting garbage among the millions of objects they make to stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _replaceable(out: Path) -> Path:
    """`out`, absolute, if it is free or holds an earlier result: publishing replaces the whole folder."""
    if out.exists():
        held = {path.name for path in out.iterdir()} if out.is_dir() else {out.name}
        if held and not held >= {"config.yaml", "metrics.jsonl", "predictions.parquet"}:
            raise InputError(f"--out {out}: holds something other than an earlier result; give a new folder")
    return out.resolve()


def _say(values: dict[str, Any], as_json: bool, line: str) -> None:
    print(json.dumps(values) if as_json else line)


@app.command()
def prepare(
    task: Annotated[str, typer.Argument(help="A task of params.yaml.")],
    overrides: Set = [],  # noqa: B006 - typer copies it
    plugin: Plugins = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Write a task's parquet files, manifest and tokenizer.

    Example: isoscope prepare sentiment
    """
    project, configuration = _configuration(overrides, plugin)
    data = configuration.data(task)
    _as_stage()
    with _importing():
        from isoscope.stages.prepare import prepare as stage

    folder = stage(data, task=task, project=project)
    _say({"folder": str(folder)}, as_json, f"prepared {task}: {folder.relative_to(project.folder)}")


@app.command()
def train(
    study: Annotated[str, typer.Argument(help="A study of params.yaml.")],
    arm: Annotated[str, typer.Argument(help="One value per axis, joined by '-'.")],
    seed: Annotated[int, typer.Option(help="Seed of weights, batches and dropout.", min=0, max=2**31 - 1)],
    overrides: Set = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(help="Publish the result here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train one arm of a study with one seed, or go on where it was stopped.

    The result goes to the pipeline's place, models/STUDY/ARM/seed-N. With -S, --plugin or a seed that is not the
    study's it is another experiment: it stays in .isoscope/runs/ and goes nowhere else unless --out says so.

    Example: isoscope train fusion additive --seed 0 -S training.epochs=2
    """
    project, configuration = _configuration(overrides, plugin)
    resolved = configuration.cell(study, arm)
    output = _replaceable(out) if out else None
    _as_stage()
    with _importing():
        from isoscope import paths
        from isoscope.stages.train import Cell
        from isoscope.stages.train import train as stage

    settings = configuration.study(study)
    if output is None and not (configuration.overrides or plugin) and seed in settings.seeds:
        output = project.folder / paths.trained(study, arm, seed)
    cell = Cell(
        study, arm, resolved.axes, seed, settings.task, resolved.tree, configuration.plugin_digests(resolved.cell)
    )
    folder = stage(resolved.cell.model, resolved.cell.training, cell=cell, project=project, output=output)
    shown = folder.relative_to(project.folder) if folder.is_relative_to(project.folder) else folder
    _say({"folder": str(folder)}, as_json, f"trained {study} {arm} seed {seed}: {shown}")


@app.command()
def analyse(
    study: Annotated[str, typer.Argument(help="A study of params.yaml.")],
    overrides: Set = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Write a study's curves, table of arms and confusion matrices.

    Example: isoscope analyse fusion
    """
    project, configuration = _configuration(overrides)
    arms = configuration.cells(study)
    _as_stage()
    with _importing():
        from isoscope.stages.analyse import analyse as stage

    folder = stage(configuration.root.analysis, configuration.study(study), name=study, arms=arms, project=project)
    _say({"folder": str(folder)}, as_json, f"analysed {study}: {folder.relative_to(project.folder)}")


@app.command()
def report(
    overrides: Set = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Write reports/index.html: every figure on one self-contained page.

    Example: isoscope report -S 'report.title=Fusion on SST-2'
    """
    project, configuration = _configuration(overrides)
    root = configuration.root
    _as_stage()
    with _importing():
        from isoscope.stages.report import report as stage

    page = stage(root.report, root.studies, root.tasks, project=project)
    _say({"page": str(page)}, as_json, f"report: {page.relative_to(project.folder)}")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def repro(
    context: typer.Context,
    overrides: Set = [],  # noqa: B006
) -> None:
    """Run the pipeline: `dvc repro`, mirrored into MLflow as it goes. Further words are DVC's.

    With -S it runs as a DVC experiment (`dvc exp run -S …`), which can be compared and undone.

    Example: isoscope repro train-fusion@additive-0
    """
    from isoscope.stages.repro import located
    from isoscope.stages.repro import repro as run

    project, configuration = _configuration(overrides)
    _, configuration = _configuration(located(overrides, configuration))
    configuration.check()
    sys.exit(run(project, configuration, context.args))


@app.command()
def mirror(
    uri: Annotated[
        str | None, typer.Option(help="An MLflow server; MLFLOW_TRACKING_URI or mlflow.db if absent.")
    ] = None,
    follow: Annotated[str | None, typer.Option(hidden=True)] = None,
    as_json: AsJson = False,
) -> None:
    """Send to MLflow what it lacks: every record, and outputs restored from DVC's cache. Repeating changes nothing.

    Example: isoscope mirror --uri http://127.0.0.1:5000
    """
    from isoscope.paths import find_project

    project = find_project()
    from isoscope.stages.mirror import follow_records, mirror_all

    if follow is not None:
        follow_records(project, uri, None if follow == "all" else follow)
        return
    sent = mirror_all(project, uri)
    line = (
        f"mirrored {sent['runs']} runs to {sent['uri']}: {sent['points']} points and {sent['models']} models were new"
    )
    _say(sent, as_json, line)


@app.command()
def check(
    overrides: Set = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Say whether params.yaml, overlays, profiles, dvc.yaml and MLproject agree.

    Example: isoscope check -S training.epochs=20
    """
    from isoscope.config.agreement import check_agreement

    project, configuration = _configuration(overrides, plugin)
    resolved = configuration.check()
    commands = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    profiles = check_agreement(project.folder, configuration, commands)
    line = f"{resolved} tasks and arms, {profiles} profiles, dvc.yaml and MLproject agree"
    _say({"cells": resolved, "profiles": profiles}, as_json, line)


@app.command()
def profile(
    name: Annotated[
        str | None, typer.Argument(help="A file of profiles/, or 'embedded' for the committed one.")
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Restore the committed params.yaml.")] = False,
) -> None:
    """Lay a profile over params.yaml, comments kept, and show what changed.

    Example: isoscope profile minilm
    """
    from isoscope.config.profiles import apply, restore
    from isoscope.paths import find_project

    folder = find_project().folder
    if reset == (name is not None):
        raise InputError("profile: give a name or --reset; see: isoscope profile --help")
    print(restore(folder) if reset or name == "embedded" else apply(folder, str(name)), end="")


@app.command()
def schema() -> None:
    """Print the JSON schema of params.yaml and overlays, for editors.

    Example: isoscope schema > params.schema.json
    """
    from isoscope.config.schema import json_schema

    print(json.dumps(json_schema(), indent=1, sort_keys=True))


@app.command()
def ui(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1.", min=1, max=65535)] = 5000,
) -> None:
    """Browse the runs in MLflow on 127.0.0.1.

    Example: isoscope ui --port 5001
    """
    from isoscope.paths import find_project
    from isoscope.stages.mirror import serve

    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(serve(find_project(), port))


@app.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
) -> None:
    """Tracked experiments on the geometry of transformer representations."""
    if version:
        from isoscope import __version__

        print(__version__)
        raise typer.Exit
