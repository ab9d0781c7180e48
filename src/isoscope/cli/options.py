"""Shared parts of the commands: the application, common options, and how a command starts and prints."""

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
        metavar="auto|ray://HOST:PORT|local",
        help="Run on the nodes of a Ray cluster.",
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
    """Return the project around the working folder; check that none of its links leads out of it."""
    from isoscope.links import check_links
    from isoscope.paths import find_project

    project = find_project()
    check_links(project)
    return project


def configure(overrides: list[str], plugins: list[Path] | None = None) -> tuple[Any, Any]:
    """Return the project around the working folder and its validated configuration. Imports nothing heavy."""
    from isoscope.config.load import Configuration
    from isoscope.config.tree import parse_override, split_overrides

    project = project_here()
    configuration = Configuration(project.folder, overrides, plugins or [])
    addressed = [one for text in overrides for one in split_overrides(text) if parse_override(one).file]
    if addressed:  # an override of an overlay must be valid even if this command does not read the overlay
        Configuration(project.folder, addressed, plugins or []).check()
    return project, configuration


def cluster_of(address: str | None, cpus: float | None, gpus: float | None) -> Any:
    """Return the checked cluster that the options name; None without `--cluster`."""
    from isoscope.executor.cluster import Cluster, check

    if address is None:
        return None
    found = Cluster(address, cpus, gpus)
    check(found)
    return found


def check_data(project: Any, configuration: Any, *tasks: str) -> None:
    """Check that each task's data were prepared from its current configuration."""
    from isoscope.runs.prepared import check_prepared

    for task in dict.fromkeys(tasks):
        check_prepared(project, configuration, task)


def as_stage() -> None:
    """End with the parent process when run by DVC, by make or as one of several ranks."""
    from isoscope import launched

    asked = os.environ.pop(
        "ISOSCOPE_WITH_PARENT", None
    )  # set by the Makefile; a command started in a shell may outlive the shell
    if asked or "DVC_STAGE" in os.environ or launched.size() > 1:
        from isoscope.guard import die_with, starter

        die_with(starter())


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Import heavy libraries without garbage collection: they create millions of permanent objects."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def say(values: dict[str, Any], as_json: bool, line: str) -> None:
    print(json.dumps(values) if as_json else line)


def heal(project: Any) -> list[Any]:
    """Mark runs of dead processes as KILLED and return them. Cheap when there are none."""
    from isoscope.runs.reconcile import reconcile

    healed = reconcile(project)
    for one in healed:
        print(f"isoscope: {one.title}: its process died; marked as KILLED", file=sys.stderr)
    return healed
