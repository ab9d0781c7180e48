"""What the commands share: the application, its options, and how a command begins and ends."""

import contextlib
import gc
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="isoscope",
    help="Tracked experiments on the geometry of transformer representations.",
    epilog="Start with: isoscope repro",
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
PLUGIN_HELP = "A Python file with your own fusions, objectives, penalties, observers, data sets, measures or views."
Plugins = Annotated[list[Path], typer.Option("--plugin", metavar="FILE", help=PLUGIN_HELP)]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes side by side [default: the cores, shared out by threads].")
]
OnCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        envvar="ISOSCOPE_CLUSTER",
        metavar="auto|ray://HOST:PORT|local",
        help="Place the runs on the nodes of a Ray cluster.",
    ),
]
Cpus = Annotated[
    float | None,
    typer.Option(
        "--cpus-per-run",
        "--cpus-per-trial",
        envvar="ISOSCOPE_CPUS_PER_RUN",
        min=0,
        help="CPUs of each run on a cluster [default: its threads].",
    ),
]
Gpus = Annotated[
    float | None,
    typer.Option(
        "--gpus-per-run",
        "--gpus-per-trial",
        envvar="ISOSCOPE_GPUS_PER_RUN",
        min=0,
        help="GPUs of each run on a cluster; 0.5: two runs share a GPU [default: 1 if its device is cuda].",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]


def project_here() -> Any:
    """The project around the working folder, none of whose links leads out of it."""
    from isoscope.links import check_links
    from isoscope.paths import find_project

    project = find_project()
    check_links(project)
    return project


def configure(overrides: list[str], plugins: list[Path] | None = None) -> tuple[Any, Any]:
    """The project around the working folder and its configuration, checked whole before anything heavy is imported."""
    from isoscope.config.load import Configuration
    from isoscope.config.tree import parse_override, split_overrides

    project = project_here()
    configuration = Configuration(project.folder, overrides, plugins or [])
    addressed = [one for text in overrides for one in split_overrides(text) if parse_override(one).file]
    if addressed:  # to an overlay: right also where this command would not read it
        Configuration(project.folder, addressed, plugins or []).check()
    return project, configuration


def cluster_of(address: str | None, cpus: float | None, gpus: float | None) -> Any:
    """The cluster that the options name, checked; None without one."""
    from isoscope.executor.cluster import Cluster, check

    if address is None:
        return None
    found = Cluster(address, cpus, gpus)
    check(found)
    return found


def check_data(project: Any, configuration: Any, *tasks: str) -> None:
    """Every command that reads a task's data: they were prepared from what its configuration says now."""
    from isoscope.runs.prepared import check_prepared

    for task in dict.fromkeys(tasks):
        check_prepared(project, configuration, task)


def as_stage() -> None:
    """Inside the pipeline, under make, or as one of several processes: end when the one that started this ends."""
    from isoscope import launched

    asked = os.environ.pop("ISOSCOPE_WITH_PARENT", None)  # by the Makefile; a shell's command may outlive the shell
    if asked or "DVC_STAGE" in os.environ or launched.size() > 1:
        from isoscope.guard import die_with, starter

        die_with(starter())


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Import heavy libraries without collecting garbage among the millions of objects they make to stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def say(values: dict[str, Any], as_json: bool, line: str) -> None:
    print(json.dumps(values) if as_json else line)


def heal(project: Any) -> list[Any]:
    """Give the runs of dead processes their true end, cheaply where there are none; says which."""
    from isoscope.runs.reconcile import reconcile

    healed = reconcile(project)
    for one in healed:
        print(f"isoscope: {one.title}: its process died without a word; noted as KILLED", file=sys.stderr)
    return healed
