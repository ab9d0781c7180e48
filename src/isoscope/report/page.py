"""Render the report: every table and figure in one self-contained HTML file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from isoscope import __version__
from isoscope.report import numbers
from isoscope.report.manifests import task
from isoscope.report.runs import plugins, run_row, server
from isoscope.report.search_section import read_search
from isoscope.report.study_section import show
from isoscope.runs.lines import RunRecord
from isoscope.studies.tables import Tables


def build(
    *,
    title: str,
    studies: Sequence[Tables],
    manifests: Mapping[str, Mapping[str, Any]],
    records: Mapping[str, RunRecord],
    tracking_uri: str | None,
    experiments: Mapping[str, str],
    folders: Mapping[str, Path],
    search: Path | None = None,
) -> str:
    """Return the report as HTML text: figures, tables, style and script are inside, and nothing is loaded.

    - `manifests`: by task.
    - `records`: by digest; runs may lack a record.
    - `tracking_uri`: the MLflow server to link to. If it is not http(s), the page gives a search to paste instead.
    - `experiments`: study → id of its MLflow experiment; links need it.
    - `folders`: study → where its stages wrote figures and tables.
    - `search`: where `isoscope search` wrote its results; a search without trials has no section.

    Raises `InputError` if a manifest lacks what the page shows, or for damaged files.
    """
    rows = {
        study.study: [
            run_row(
                run,
                records.get(run.digest),
                tracking_uri=tracking_uri,
                experiment=experiments.get(study.study),
            )
            for run in study.runs
        ]
        for study in studies
    }
    every = [row for part in rows.values() for row in part]
    return (
        environment()
        .get_template("page.html")
        .render(
            title=title,
            version=__version__,
            studies=[
                show(study, rows[study.study], position=i, folder=folders[study.study])
                for i, study in enumerate(studies, start=1)
            ],
            search=read_search(search, tracking_uri=tracking_uri, experiments=experiments) if search else None,
            tasks=[task(name, manifest) for name, manifest in manifests.items()],
            runs=every,
            plugins=plugins(every),
            server=server(tracking_uri),
        )
    )


def environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("isoscope.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for function in (
        *(numbers.count, numbers.duration, numbers.interval),
        *(numbers.probability, numbers.score, numbers.signed, numbers.spread),
    ):
        environment.filters[function.__name__] = function
    return environment
