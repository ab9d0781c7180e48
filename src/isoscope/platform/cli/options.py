"""Shared parts of the commands: the application, common options, how a command starts and what it prints."""

import inspect
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from isoscope.base import environment
from isoscope.base.errors import InputError
from isoscope.base.processes import StoppedError, die_with, rank, starter, world_size
from isoscope.platform.cli.option_parsing import Command

HEADINGS = BEGIN, RUN, EXPLAIN, LOOK, HYPERPARAMETERS, GIVE_AWAY, KEEP_HOUSE = (
    *("Begin", "Run the pipeline and its stages", "Plan, explain and prove", "Look at models and runs"),
    *("Search hyperparameters", "Give away", "Keep house"),
)
"""What commands are for, in the order of the help."""


class _Grouped(TyperGroup):
    """Lists its commands by what they are for."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # typer would end with code 1, without a line
            raise StoppedError(signal.SIGPIPE, "the reader of its output has ended") from None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        shown = {name: command for name, command in self.commands.items() if not command.hidden}
        limit = formatter.width - 6 - max(map(len, shown))
        groups: dict[str, list[tuple[str, str]]] = {heading: [] for heading in (*HEADINGS, "Commands")}
        for name, command in shown.items():
            heading = getattr(command, "rich_help_panel", None) or "Commands"
            groups[heading].append((name, command.get_short_help_str(limit)))
        for heading, rows in groups.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


class Commands(typer.Typer):
    """An application, or a group of commands, whose options are given once."""

    def __init__(self, **given: Any) -> None:
        super().__init__(cls=_Grouped, **given)

    def command(self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **given: Any) -> Any:
        return super().command(name, cls=cls or Command, **given)


app = Commands(
    name="isoscope",
    help="Tracked experiments on the geometry of transformer representations.",
    epilog="Start with: isoscope new my-study, then isoscope repro in it",
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # importing rich doubles the time of --help
    context_settings={"help_option_names": ["-h", "--help"]},
)

Set = Annotated[
    list[str],
    typer.Option(
        "-S",
        "--set",
        metavar="[FILE:]NAME=VALUE",
        help="Set one value for this command; may be repeated.",
    ),
]
PLUGIN_HELP = "A Python file with your own fusions, objectives, penalties, observers, data sets, measures or views."
Plugins = Annotated[list[Path], typer.Option("--plugin", metavar="FILE", help=PLUGIN_HELP)]
Workers = Annotated[int | None, typer.Option(min=1, help="Parallel processes [default: CPU cores / threads per run].")]
OnCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        envvar="ISOSCOPE_CLUSTER",
        metavar="slurm|auto|ray://HOST:PORT|local",
        help="Run as jobs of Slurm, or on the nodes of a Ray cluster.",
    ),
]
Cpus = Annotated[
    float | None,
    typer.Option(
        "--cpus-per-run",
        envvar="ISOSCOPE_CPUS_PER_RUN",
        min=0,
        help="CPUs of each run on a cluster [default: its threads].",
    ),
]
Gpus = Annotated[
    float | None,
    typer.Option(
        "--gpus-per-run",
        envvar="ISOSCOPE_GPUS_PER_RUN",
        min=0,
        help="GPUs of each run; 0.25: four runs share a GPU [default: execution.gpus_per_run; null: as memory allows].",
    ),
]
Slurm = Annotated[
    str | None,
    typer.Option(
        envvar="ISOSCOPE_SLURM",
        metavar="NAME=VALUE,…",
        help="Options of sbatch, such as partition=gpu,time=120; they precede execution.slurm.",
    ),
]
Detach = Annotated[bool, typer.Option("--detach", help="Submit jobs of Slurm and end; isoscope status lists them.")]
SetupFile = Annotated[Path | None, typer.Option("--setup", hidden=True)]
Study = Annotated[str, typer.Argument(help="A study of params.yaml.")]
Arm = Annotated[str | None, typer.Argument(help="One value per axis, joined by '-' [default: every arm].")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]


def project_here() -> Any:
    """Return the project around the working folder; check that none of its links leads out of it."""
    from isoscope.base.paths import find_project
    from isoscope.base.symlinks import check_links

    project = find_project()
    check_links(project)
    return project


def configure(overrides: list[str], plugins: list[Path] | None = None) -> tuple[Any, Any]:
    """Return the project around the working folder and its validated configuration. Imports nothing heavy."""
    from isoscope.platform.config.across_studies import check_all
    from isoscope.platform.config.load import Configuration
    from isoscope.platform.config.new_project import check_code
    from isoscope.platform.config.overrides import parse_override, split_overrides

    project = project_here()
    if stage := os.environ.get("DVC_STAGE"):  # else dvc.lock would name other code than that which ran
        check_code(project.folder, stage.rpartition(":")[2].partition("@")[0])
    configuration = Configuration(project.folder, overrides, plugins or [])
    addressed = [one for text in overrides for one in split_overrides(text) if parse_override(one).file]
    if addressed:  # an override of an overlay must be valid even if this command does not read the overlay
        check_all(Configuration(project.folder, addressed, plugins or []))
    return project, configuration


class Here(NamedTuple):
    """The project around the working folder, its configuration under -S and --plugin, and where runs work."""

    project: Any
    configuration: Any
    placement: Any
    job: bool = False  # of another command, whose setup it has

    def begin(self, *tasks: str) -> None:
        """Check that the data of tasks fit the configuration, and `heal`."""
        from isoscope.platform.runs.prepared import check_prepared

        for task in dict.fromkeys(tasks):
            check_prepared(self.project, self.configuration, task)
        if not rank():
            heal(self.project)

    def cells(self, study: str, arm: str | None = None, seed: int | None = None) -> list[tuple[str, str, int]]:
        """Return the cells of a study: of every arm and seed, or of those that are named."""
        known = self.configuration
        arms = known.cells(study) if arm is None else {arm: known.cell(study, arm)}
        seeds = known.study(study).seeds if seed is None else (seed,)
        return [(study, name, number) for name in arms for number in seeds]


def here(
    cluster: OnCluster = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    slurm: Slurm = None,
    detach: Detach = False,
    overrides: Set = [],  # noqa: B006 - typer copies it
    plugin: Plugins = [],  # noqa: B006
    setup: SetupFile = None,
) -> Here:
    """Begin a command in a project; its parameters are options of commands."""
    from isoscope.platform.executor.placement import placement_of

    as_stage()
    handed_over = None if setup is None else load("platform.stages.study_cells").handed_over(setup)
    project, configuration = handed_over or configure(overrides, plugin)
    placement = placement_of(configuration.root.execution, cluster, cpus, gpus, slurm, detach=detach)
    return Here(project, configuration, placement, setup is not None)


OPTIONS = inspect.signature(here).parameters
CLUSTER, CHANGES, JOB = ("cluster", "cpus", "gpus", "slurm"), ("overrides", "plugin"), ("setup",)
Said = tuple[dict[str, Any], str] | tuple[dict[str, Any], str, bool] | None
"""What a command prints: one JSON object for machines, or text for people; and whether it has failed."""


def command(
    panel: str | None, *shared: str, of: Commands = app, options: Iterable[inspect.Parameter] = (), **more: Any
) -> Callable[[Callable[..., Said]], Callable[..., None]]:
    """Register a function as a command, which prints what it returns.

    A parameter `here`, the first, is the result of `here` with the `shared` options. They and --json are added, and
    other `options`, which it takes as `**given`.
    """

    def register(function: Callable[..., Said]) -> Callable[..., None]:
        own = dict(inspect.signature(function).parameters)
        in_project, _ = own.pop("here", None) is not None, own.pop("given", None)

        @wraps(function)
        def called(*, as_json: bool, **given: Any) -> None:
            chosen = {name: given.pop(name) for name in shared}
            said = function(*([here(**chosen)] if in_project else []), **given)
            if said is not None:
                say(said[0], as_json, said[1])
                if any(said[2:]):
                    raise typer.Exit(1)

        json_option = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson)
        every = [*own.values(), *options, *(OPTIONS[name] for name in shared), json_option]
        keywords = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in every]
        called.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
        of.command(rich_help_panel=panel, **more)(called)
        return called

    return register


def declared(*by: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """Yield the options that functions or named tuples declare, as parameters of a command, in their order.

    The annotation of each says all: `Annotated[type, bounds, values, "--flag", "meaning"]`. Only the meaning is
    required.
    """
    for one in (one for each in by for one in inspect.signature(each, eval_str=True).parameters.values()):
        if get_origin(one.annotation) is Annotated:
            yield one.replace(kind=inspect.Parameter.KEYWORD_ONLY, **_typed(one.name, one.default, one.annotation))


def _typed(name: str, default: Any, annotation: Any) -> dict[str, Any]:
    """Return default and annotation of an option; a tuple may be repeated, and is empty unless it is given."""
    kind, *notes = get_args(annotation)
    *flags, about = (note for note in notes if isinstance(note, str))
    values = next((note for note in notes if isinstance(note, tuple)), ())
    bounds = (("min", "ge"), ("max", "le"))
    limits = {to: getattr(note, of) for note in notes for to, of in bounds if hasattr(note, of)}
    flag = flags[0] if flags else "--" + name.replace("_", "-")
    several = get_args(kind)[1:] == (...,)  # a pair of values is one value
    about += (f": {', '.join(values)}" if values else "") + "; may be repeated" * several

    def known(given: Any) -> Any:
        names = filter(None, given) if several else [given]  # MLproject passes an empty text for an absent option
        if wrong := [one for one in names if values and one not in values]:
            raise InputError(f"{flag} {wrong[0]}: expected {', '.join(values)}")
        return given

    option = typer.Option(flag, help=f"{about}.", callback=known, **limits)
    plain: Any = list[str] if several else str if values else kind
    return {"default": [] if several else default, "annotation": Annotated[plain, option]}


@cache
def as_stage() -> None:
    """End with the parent process when run by DVC, by make or as one of several ranks. Stages call it first."""
    # Set by the Makefile; a command started in a shell may outlive the shell.
    if os.environ.pop("ISOSCOPE_WITH_PARENT", None) or "DVC_STAGE" in os.environ or world_size() > 1:
        die_with(starter())


def load(module: str) -> Any:
    """Import a module of the package that needs heavy libraries."""
    return environment.load(f"isoscope.{module}")


def say(values: dict[str, Any], as_json: bool, line: str) -> None:
    from isoscope.platform.runs.lines import plain

    print(json.dumps(plain(values), allow_nan=False) if as_json else line)


def heal(project: Any) -> list[Any]:
    """Mark runs of dead processes as KILLED and return them. Cheap when there are none."""
    from isoscope.platform.runs.upkeep import reconcile

    healed = reconcile(project)
    for one in healed:
        print(f"isoscope: {one.title}: its process died; marked as KILLED", file=sys.stderr)
    return healed
