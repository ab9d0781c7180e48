"""Commands of hyperparameter search."""

from typing import Annotated, Any

import typer

from isoscope.base.errors import InputError
from isoscope.base.paths import SEARCH
from isoscope.platform.cli.once import HYPERPARAMETERS, Commands
from isoscope.platform.cli.options import (
    AsJson,
    Cpus,
    Gpus,
    OnCluster,
    Plugins,
    Set,
    app,
    as_stage,
    begin,
    cluster_of,
    configure,
    load,
    say,
)

search = Commands(
    help="Search hyperparameters: the section `search` of params.yaml.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(search, name="search", rich_help_panel=HYPERPARAMETERS)

Storage = Annotated[
    str | None,
    typer.Option(
        envvar="ISOSCOPE_SEARCH",
        metavar="URL",
        help="postgresql://HOST/DATABASE, or sqlite:///FILE; default: a SQLite file in the project.",
    ),
]
Workers = Annotated[int, typer.Option(min=1, max=256, help="Parallel trials, each run in its own process.")]


@search.command()
def run(
    workers: Workers = 1,
    storage: Storage = None,
    cluster: OnCluster = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    fork: Annotated[bool, typer.Option(help="If the search has changed, create a new study.")] = False,
    if_any: Annotated[bool, typer.Option(help="Do nothing if params.yaml has no search.")] = False,
    overrides: Set = [],  # noqa: B006 - typer copies it
    plugin: Plugins = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Run or resume a search until its budget is spent.

    Ctrl-C finishes running trials; a second Ctrl-C stops now. Run the same command to resume. Tables and figures go to
    reports/search, or to .isoscope/search/ if -S changes more than search.budget.

    Example: isoscope search run --workers 2 -S search.budget.trials=20
    """
    nodes = cluster_of(cluster, cpus, gpus)
    as_stage()
    project, configuration = configure(overrides, plugin)
    if if_any and configuration.root.search is None:
        from isoscope.base.atomic_files import replacing, write_text

        (project.folder / SEARCH).parent.mkdir(exist_ok=True)
        with replacing(project.folder / SEARCH, "table") as fresh:  # drops the results of an earlier search
            write_text(fresh / "study.json", '{"counts": {}}\n', "table")
        say({"study": None}, as_json, "no search in params.yaml")
        return
    section, _, _, where = searched = _searched(project, configuration, storage)
    begin(project, configuration)
    # reports/search holds the search of params.yaml; other searches have another folder.
    other = plugin or [one for one in configuration.overrides if not one.name.startswith("search.budget.")]
    target = where.folder / "reports" / section.name if other else project.folder / SEARCH
    options = {"workers": workers, "cluster": nodes, "fork": fork, "target": target}
    seen, folder = load("platform.stages.search").search(*searched, **options)
    shown = f"{load('platform.search.status').in_words(seen)}\n{folder}"
    say({**seen._asdict(), "folder": str(folder)}, as_json, shown)


@search.command(hidden=True, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def worker() -> None:
    """Name the command that took its place: one driver searches, and a cluster brings other machines."""
    raise InputError("search worker: a search has one driver now; for several machines: isoscope search run --cluster")


@search.command()
def status(
    storage: Storage = None,
    overrides: Set = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Show the progress of the search, whose settings are those of params.yaml.

    Example: isoscope search status --json
    """
    section, configuration, project, where = _searched(*configure(overrides, plugin), storage)
    progress, identified = load("platform.search.status"), load("platform.stages.search_runs").identified
    known = identified(configuration, section, project)
    seen = progress.status(load("platform.search.study").stored_study(section, known, where), section)
    say(seen._asdict(), as_json, progress.in_detail(seen))


Trial = Annotated[int | None, typer.Option(min=0, help="Number of the trial; default: the best or suggested trial.")]


@search.command()
def adopt(
    name: Annotated[str, typer.Argument(metavar="AXIS/NAME", help="The overlay to write: variants/AXIS/NAME.yaml.")],
    trial: Trial = None,
    storage: Storage = None,
    overrides: Set = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Write a trial as an overlay, to use it as an arm of a study.

    Example: isoscope search adopt fusion/found --trial 7
    """
    searched = _searched(*configure(overrides, plugin), storage)
    file, number = load("platform.stages.search_choice").adopt(*searched, name=name, trial=trial)
    shown = file.relative_to(searched[2].folder)
    axis, value = name.split("/")
    use = f"to use it: add {value} to studies.{searched[0].study}.axes.{axis} in params.yaml, then isoscope repro"
    say({"file": str(shown), "trial": number}, as_json, f"trial {number}: {shown}\n{use}")


@search.command()
def confirm(
    trial: Trial = None,
    seeds: Annotated[int, typer.Option(min=2, help="Number of fresh seeds, for the trial and the default.")] = 5,
    workers: Workers = 1,
    storage: Storage = None,
    overrides: Set = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Train a trial and the default with fresh seeds and compare them: the best of many trials is optimistic.

    Example: isoscope search confirm --seeds 5 --workers 2
    """
    searched = _searched(*configure(overrides, plugin), storage)
    begin(searched[2], searched[1])
    found = load("platform.stages.search_choice").confirm(*searched, trial=trial, seeds=seeds, workers=workers)
    say(found._asdict(), as_json, found.as_text())


def _searched(project: Any, configuration: Any, storage: str | None) -> tuple[Any, Any, Any, Any]:
    """Return the section `search`, the configuration, the project, and where the search is stored."""
    from isoscope.platform.runs.prepared import check_prepared

    if configuration.root.search is None:
        raise InputError("params.yaml: search: null; define a search there")
    load("platform.config.search_corners").check_search(configuration)
    section = configuration.root.search
    where = load("platform.search.storage").place(storage, project.state / ".isoscope" / "search")
    check_prepared(project, configuration, configuration.study(section.study).task)
    return section, configuration, project, where
