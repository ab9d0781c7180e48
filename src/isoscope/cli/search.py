"""Commands of hyperparameter search."""

from pathlib import Path
from typing import Annotated, Any

import typer

from isoscope.cli.options import AsJson, Plugins, Set, app, as_stage, configure, heal, importing, say
from isoscope.errors import InputError

search = typer.Typer(
    help="Search hyperparameters: the section `search` of params.yaml.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(search, name="search")

Storage = Annotated[
    str | None,
    typer.Option(
        envvar="ISOSCOPE_SEARCH",
        metavar="URL",
        help="postgresql://USER@HOST/DATABASE for several machines; a SQLite file of the project's own, if not given.",
    ),
]
Workers = Annotated[int, typer.Option(min=1, max=256, help="Trials at a time, each in a process of its own.")]


def _place(project: Any, storage: str | None) -> Any:
    from isoscope.search.study import place

    return place(storage, project.state / ".isoscope" / "search")


@search.command()
def run(
    workers: Workers = 1,
    storage: Storage = None,
    fork: Annotated[bool, typer.Option(help="Where the search has changed, make a new study beside the old.")] = False,
    overrides: Set = [],  # noqa: B006 - typer copies it
    plugin: Plugins = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Run trials until the budget is spent, or go on with them.

    Ctrl-C lets begun trials finish; twice, it stops now, and the same command goes on. Tables and figures go to
    reports/search; with -S of more than search.budget it is another search, and they go to .isoscope/search/.

    Example: isoscope search run --workers 2 -S search.budget.trials=20
    """
    _work(workers, storage, overrides, plugin, as_json, fork=fork, join=False)


@search.command()
def worker(
    workers: Workers = 1,
    storage: Storage = None,
    overrides: Set = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Help with a search that was begun elsewhere, until its budget is spent.

    The project must be as it is there, its task prepared.

    Example: isoscope search worker --storage postgresql://isoscope@db.example.org/isoscope
    """
    _work(workers, storage, overrides, plugin, as_json, fork=False, join=True)


@search.command()
def status(
    storage: Storage = None,
    overrides: Set = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Say how far the search is.

    Example: isoscope search status --json
    """
    project, configuration = configure(overrides, plugin)
    where = _place(project, storage)
    with importing():
        from isoscope.search.status import in_words
        from isoscope.search.status import status as look
        from isoscope.search.study import latest

    seen = look(latest(_searched(configuration), where), _searched(configuration))
    say(seen._asdict(), as_json, in_words(seen))


def _searched(configuration: Any) -> Any:
    if configuration.root.search is None:
        raise InputError("params.yaml: search: nothing is searched (null); describe a space there")
    configuration.check_search()
    return configuration.root.search


def _work(
    workers: int,
    storage: str | None,
    overrides: list[str],
    plugin: list[Path],
    as_json: bool,
    *,
    fork: bool,
    join: bool,
) -> None:
    project, configuration = configure(overrides, plugin)
    as_stage()
    heal(project)
    where = _place(project, storage)
    with importing():
        from isoscope.search.status import in_words
        from isoscope.stages.search import search as stage

    other = plugin or [one for one in configuration.overrides if not one.name.startswith("search.budget.")]
    section = _searched(configuration)
    folder = where.folder / "reports" / section.name if other else project.folder / "reports/search"
    found = stage(
        section, configuration, project, where, workers=workers, fork=fork, join=join, target=None if join else folder
    )
    shown = f"{in_words(found.status)}" + (f"\n{found.folder}" if found.folder else "")
    say({**found.status._asdict(), "folder": str(found.folder) if found.folder else None}, as_json, shown)
