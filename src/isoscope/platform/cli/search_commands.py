"""Commands of hyperparameter search."""

import json
from typing import Annotated, Any

import typer

from isoscope.base.errors import InputError
from isoscope.base.paths import SEARCH
from isoscope.platform.cli.options import (
    CHANGES,
    CLUSTER,
    HYPERPARAMETERS,
    JOB,
    Commands,
    Here,
    Said,
    app,
    command,
    load,
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
Trial = Annotated[int | None, typer.Option(min=0, help="Number of the trial; default: the best or suggested trial.")]


@command(None, *CLUSTER, *CHANGES, of=search)
def run(
    here: Here,
    workers: Workers = 1,
    storage: Storage = None,
    fork: Annotated[bool, typer.Option(help="If the search has changed, create a new study.")] = False,
    if_any: Annotated[bool, typer.Option(help="Do nothing if params.yaml has no search.")] = False,
) -> Said:
    """Run or resume a search until its budget is spent.

    Ctrl-C finishes running trials; a second Ctrl-C stops now. Run the same command to resume. Tables and figures go to
    reports/search, or to .isoscope/search/ if -S changes more than search.budget.

    Example: isoscope search run --workers 2 -S search.budget.trials=20
    """
    project, configuration, placement, _ = here
    if if_any and configuration.root.search is None:
        load("platform.stages.nothing").write_no_search(project)
        return {"study": None}, "no search in params.yaml"
    searched = _searched(here, storage)
    here.begin()
    options = {"workers": workers, "placement": placement, "fork": fork, "target": _target(here, *searched)}
    seen, folder = load("platform.stages.search").search(*searched, **options)
    shown = f"{load('platform.search.status').in_words(seen)}\n{folder}"
    return {**seen._asdict(), "folder": str(folder)}, shown


@command(None, *CHANGES, *JOB, of=search, hidden=True)
def trial(
    here: Here,
    choices: Annotated[str, typer.Option(help="Chosen values by name, as JSON.")],
    seed: Annotated[int, typer.Option(help="Seed of the run.")],
    data: Annotated[str | None, typer.Option(help="Hash of the data of the search.")] = None,
) -> Said:
    """Carry out one run of a trial, as a job of a search."""
    folder = load("platform.stages.search_runs").run_there(here, json.loads(choices), seed, data)
    return {"folder": folder}, folder


@command(None, *CHANGES, of=search)
def status(here: Here, storage: Storage = None) -> Said:
    """Show the progress of the search, whose settings are those of params.yaml.

    Example: isoscope search status --json
    """
    section, configuration, project, where = _searched(here, storage)
    progress, identified = load("platform.search.status"), load("platform.stages.search_runs").identified
    known = identified(configuration, section, project)
    seen = progress.status(load("platform.search.study").stored_study(section, known, where), section)
    return seen._asdict(), progress.in_detail(seen)


@command(None, *CHANGES, of=search)
def adopt(
    here: Here,
    name: Annotated[str, typer.Argument(metavar="AXIS/NAME", help="The overlay to write: variants/AXIS/NAME.yaml.")],
    trial: Trial = None,
    storage: Storage = None,
) -> Said:
    """Write a trial as an overlay, to use it as an arm of a study.

    Example: isoscope search adopt fusion/found --trial 7
    """
    searched = _searched(here, storage)
    file, number = load("platform.stages.search_choice").adopt(*searched, name=name, trial=trial)
    shown = file.relative_to(here.project.folder)
    axis, value = name.split("/")
    place = axis if axis == "settings" else f"axes.{axis}"
    use = f"to use it: add {value} to studies.{searched[0].study}.{place} in params.yaml, then isoscope repro"
    return {"file": str(shown), "trial": number}, f"trial {number}: {shown}\n{use}"


@command(None, *CHANGES, of=search)
def confirm(
    here: Here,
    trial: Trial = None,
    seeds: Annotated[int, typer.Option(min=2, help="Number of fresh seeds, for the trial and the default.")] = 5,
    workers: Workers = 1,
    storage: Storage = None,
) -> Said:
    """Train a trial and the default with fresh seeds and compare them: the best of many trials is optimistic.

    The result goes to reports/search-confirmed.json, or to .isoscope/search/ if -S changes more than search.budget.

    Example: isoscope search confirm --seeds 5 --workers 2
    """
    searched = _searched(here, storage)
    here.begin()
    target = _target(here, *searched)
    found = load("platform.stages.search_choice").confirm(
        *searched,
        trial=trial,
        seeds=seeds,
        workers=workers,
        placement=here.placement,
        target=target.with_name(f"{target.name}-confirmed.json"),
    )
    return found._asdict(), found.as_text()


def _target(here: Here, section: Any, configuration: Any, project: Any, where: Any) -> Any:
    """Return the folder of a search's results: reports/search holds that of params.yaml, others have their own."""
    other = [one for one in configuration.overrides if not one.name.startswith("search.budget.")]
    apart = other or configuration.extra_plugins
    return where.folder / "reports" / section.name if apart else project.folder / SEARCH


def _searched(here: Here, storage: str | None) -> tuple[Any, Any, Any, Any]:
    """Return the section `search`, the configuration, the project, and where the search is stored."""
    from isoscope.platform.runs.prepared import check_prepared

    project, configuration, *_ = here
    if configuration.root.search is None:
        raise InputError("params.yaml: search: null; define a search there")
    load("platform.config.across_studies").check_search(configuration)
    section = configuration.root.search
    where = load("platform.search.storage").place(storage, project.state / ".isoscope" / "search")
    check_prepared(project, configuration, configuration.study(section.study).task)
    return section, configuration, project, where
