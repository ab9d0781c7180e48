"""Shared parts of the commands: the application, common options, how a command starts and prints, and `--out`."""

import json
import os
import re
import sys
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from isoscope.base import environment
from isoscope.base.errors import InputError
from isoscope.base.paths import LONGEST, PARAMS, PLUGINS, PROFILES, VARIANTS
from isoscope.base.processes import die_with, rank, starter, world_size
from isoscope.platform.cli.once import Commands

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
Study = Annotated[str, typer.Argument(help="A study of params.yaml.")]
Arm = Annotated[str | None, typer.Argument(help="One value per axis, joined by '-' [default: every arm].")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]

_DVC = Path("dvc.yaml")
_SOURCES = {*map(str, (VARIANTS, PROFILES, PLUGINS)), "benchmarks", "docs", "src", "tests", "texts"}
MLFLOW = {"mlflow.db", "mlartifacts", "mlruns"}
_TEMPLATE = re.compile(r"\$\{([^}]*)\}")
# Files that a result may hold, and files that it must hold.
TRAINED = (
    {
        *("config.yaml", "metrics.jsonl", "predictions.parquet", "trace.json", "checkpoints", "snapshots"),
        *("allocation.parquet", "closure.parquet", "minibatch.parquet", "bleu.json", "translations.parquet"),
        *("objective.json", "slices.parquet", "slices_closure.parquet"),
    },
    {"config.yaml", "metrics.jsonl"},
)
PREPARED = (
    {
        *(f"{split}.parquet" for split in ("train", "validation", "test", "treebank")),
        "tokenizer",
        "manifest.json",
        "settings.json",
    },
    {"manifest.json", "settings.json"},
)
_OWN_DATA = ("processed", "hidden_states", "measures")


def project_here() -> Any:
    """Return the project around the working folder; check that none of its links leads out of it."""
    from isoscope.base.paths import find_project
    from isoscope.base.symlinks import check_links

    project = find_project()
    check_links(project)
    return project


def configure(overrides: list[str], plugins: list[Path] | None = None) -> tuple[Any, Any]:
    """Return the project around the working folder and its validated configuration. Imports nothing heavy."""
    from isoscope.platform.config.code_digests import check_code
    from isoscope.platform.config.load import Configuration
    from isoscope.platform.config.tree import parse_override, split_overrides

    project = project_here()
    if stage := os.environ.get("DVC_STAGE"):  # else dvc.lock would name other code than that which ran
        check_code(project.folder, stage.rpartition(":")[2].partition("@")[0])
    configuration = Configuration(project.folder, overrides, plugins or [])
    addressed = [one for text in overrides for one in split_overrides(text) if parse_override(one).file]
    if addressed:  # an override of an overlay must be valid even if this command does not read the overlay
        Configuration(project.folder, addressed, plugins or []).check()
    return project, configuration


def cluster_of(address: str | None, cpus: float | None, gpus: float | None) -> Any:
    """Return the checked cluster that the options name; None without `--cluster`."""
    from isoscope.platform.executor.cluster import Cluster, check

    return None if address is None else check(Cluster(address, cpus, gpus))


def begin(project: Any, configuration: Any, *tasks: str) -> None:
    """Start a command that reads tasks: `as_stage`, check that their data fit the configuration, `heal`."""
    as_stage()
    from isoscope.platform.runs.prepared import check_prepared

    for task in dict.fromkeys(tasks):
        check_prepared(project, configuration, task)
    if not rank():
        heal(project)


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
    print(json.dumps(values) if as_json else line)


def heal(project: Any) -> list[Any]:
    """Mark runs of dead processes as KILLED and return them. Cheap when there are none."""
    from isoscope.platform.runs.reconcile import reconcile

    healed = reconcile(project)
    for one in healed:
        print(f"isoscope: {one.title}: its process died; marked as KILLED", file=sys.stderr)
    return healed


def check_free(out: Path, *, such_as: str, key: str = "--out") -> None:
    """Raise `InputError` if `out` is a file, belongs to git or MLflow, or is a source or output of the project."""
    if len(os.fsencode(out.name)) > LONGEST:
        raise InputError(f"{key} {out.name[:40]}…: longer than {LONGEST} bytes; give a shorter name")
    place = out.resolve()
    project = next(
        (one for one in (place, *place.parents) if (one / PARAMS).is_file() and (one / _DVC).is_file()), None
    )
    inside = place.relative_to(project) if project else Path()
    top = next(iter(inside.parts), "")
    written = (
        one
        for one in (_outputs(project) if project and top else ())
        if inside.is_relative_to(one) or Path(one).is_relative_to(inside)
    )
    reasons = {
        "is a file": place.exists() and not place.is_dir(),
        "belongs to git": ".git" in (part.casefold() for part in (inside if project else place).parts),
        f"is in {top}, a hidden folder of a tool": top.startswith("."),
        "belongs to MLflow": top in MLFLOW,
        f"is in {top}, among the project's sources": top in _SOURCES,
        **{f"overlaps {one}, which the pipeline writes ({_DVC})": True for one in written},
    }
    if taken := [reason for reason, applies in reasons.items() if applies]:
        raise InputError(f"{key} {out}: {taken[0]}; give a separate folder, such as {such_as}")


def _outputs(project: Path) -> Iterator[str]:
    """Yield the paths of all stage outputs; stages with `foreach` have outputs per task or study."""
    from isoscope.platform.config.tree import read_yaml

    params = read_yaml(project, PARAMS)
    for stage in (read_yaml(project, _DVC).get("stages") or {}).values():
        section = _TEMPLATE.fullmatch(str(stage.get("foreach")))
        names = list(params.get(section[1]) or ()) if section else [""]
        for kind in ("outs", "metrics", "plots"):
            for entry in (stage.get("do") or stage).get(kind) or ():
                output = next(iter(entry)) if isinstance(entry, dict) else str(entry)
                yield from dict.fromkeys(_TEMPLATE.sub(str(name), output) for name in names)


def replaceable(
    out: Path, project: Path, studies: Collection[str], result: tuple[Collection[str], Collection[str]]
) -> Path:
    """Return `out` as an absolute path. It must be free or hold an earlier result, because publishing replaces it."""
    place = out.resolve()
    if not place.is_relative_to(project.resolve()):
        raise InputError(f"--out {out}: is outside the project; give a folder in {project}")
    parts = place.relative_to(project.resolve()).parts
    for top, own in (("models", studies), ("data", _OWN_DATA)):
        if parts[:1] == (top,) and (len(parts) < 2 or parts[1] in own):
            raise InputError(
                f"--out {out}: is a folder of the pipeline; give another folder, such as {top}/by-hand/name"
            )
    check_free(out, such_as=f"{'data' if result is PREPARED else 'models'}/by-hand/name")
    held = {path.name for path in place.iterdir()} if place.is_dir() else {place.name} if place.exists() else set()
    most, least = map(set, result)
    if held and not least <= held <= most:
        raise InputError(f"--out {out}: holds files that are not an earlier result; give a new folder")
    return place
