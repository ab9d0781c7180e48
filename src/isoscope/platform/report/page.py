"""Render the report: one HTML file, with large tables of figures as CSV files next to it."""

from collections.abc import Mapping, Sequence
from gzip import decompress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from isoscope import __version__
from isoscope.base.built_in import PLAIN
from isoscope.base.kind import kind
from isoscope.platform.config.comparing import Comparison
from isoscope.platform.report.glossary import with_used_terms
from isoscope.platform.report.runs import by_arm, home, plugins, run_row, server, settings
from isoscope.platform.report.search_section import read_search
from isoscope.platform.report.sections import environment, show, show_comparison
from isoscope.platform.report.task_section import task, text_of
from isoscope.platform.results.published import papers
from isoscope.platform.results.study_tables import Tables
from isoscope.platform.runs.lines import RunRecord


class Page(NamedTuple):
    """The report as HTML text, and files next to it that it links to."""

    html: str
    files: dict[str, bytes]


def build(
    *,
    title: str,
    studies: Sequence[Tables],
    manifests: Mapping[str, Mapping[str, Any]],
    records: Mapping[str, RunRecord],
    tracking_uri: str | None,
    experiments: Mapping[str, str],
    folders: Mapping[str, Path],
    comparisons: Mapping[str, Comparison] = MappingProxyType({}),
    abouts: Mapping[str, str | None] = MappingProxyType({}),
    kinds: Mapping[str, str] = MappingProxyType({}),
    lacks: Mapping[str, Sequence[str]] = MappingProxyType({}),
    search: Path | None = None,
    audited: str = "",
) -> Page:
    """Return the report: figures, tables, style and script are in its HTML, and nothing is loaded.

    Large tables of figures are CSV files next to it.

    - `manifests`: by task.
    - `records`: by digest; runs may lack a record.
    - `tracking_uri`: the MLflow server to link to. If it is not http(s), the page gives a search to paste instead.
    - `experiments`: study → id of its MLflow experiment; links need it.
    - `folders`: study or comparison → where its stages wrote figures and tables.
    - `comparisons`: name → its section of params.yaml.
    - `abouts`: study → what it asks, in its author's words.
    - `kinds`: study → its kind, if it has another than `arms`.
    - `lacks`: study → what its part lacks of params.yaml.
    - `audited`: the result of the last audit, in a line.
    - `search`: where `isoscope search` wrote its results; a search without trials has no section.

    Raises `InputError` if a manifest lacks what the page shows, or for damaged files.
    """
    serves = serving(studies, kinds)
    studies = in_order(studies, serves)
    homes = {run.digest: home(records.get(run.digest), study.study) for study in studies for run in study.runs}
    rows = {
        study.study: [
            run_row(
                run,
                records.get(run.digest),
                tracking_uri=tracking_uri,
                experiment=experiments.get(homes[run.digest]),
            )
            for run in study.runs
        ]
        for study in studies
    }
    every = [row for part in rows.values() for row in part]
    shown = [
        show(one, rows[one.study], kind=kinds.get(one.study, PLAIN), folder=folders[one.study], chapter=chapter)
        | {
            "settings": settings(one.runs, records),
            "lacks": lacks.get(one.study, ()),
            "serves": serves.get(one.study),
            "about": abouts.get(one.study),
            "text": text_of(one, manifests),
            "by_arm": by_arm(tracking_uri, experiments.get(one.study)),
        }
        for chapter, one in enumerate(studies, start=1)
    ]
    compared = [
        show_comparison(name, section, folders[name], rows=rows, chapter=chapter)
        for chapter, (name, section) in enumerate(comparisons.items(), start=len(studies) + 1)
    ]
    found = search and read_search(
        search,
        tracking_uri=tracking_uri,
        experiments=experiments,
        chapter=len(studies) + len(comparisons) + 1,
        homes=homes,
    )
    figures = [one for part in (*shown, *compared) for one in part["part"]["figures"]]
    figures += found["drawings"] if found else []
    shown_kinds = dict.fromkeys([PLAIN, *kinds.values(), *(one.kind for one in comparisons.values())])
    template = environment().get_template("page.html")
    html = template.render(
        title=title,
        audited=audited,
        version=__version__,
        studies=shown,
        comparisons=compared,
        papers=papers(one.remakes for one in figures),
        search=found,
        tasks=[task(name, manifest) for name, manifest in manifests.items()],
        runs=every,
        plugins=plugins(every),
        terms={term: text for name in shown_kinds for term, text in kind(name).terms.items()},
        server=server(tracking_uri),
    )
    files = {file: decompress(one.tables[name]) for one in figures for name, file in one.files.items()}
    return Page(with_used_terms(html), files)


def serving(studies: Sequence[Tables], kinds: Mapping[str, str]) -> dict[str, str]:
    """Return study → the study that it serves: runs of the latter start from its runs, directly or by a third study.

    A study with a kind of its own asks its own question. `kinds`: study → its kind, if it has another than `arms`.
    """
    home = {run.digest: one.study for one in studies for run in one.runs if kinds.get(one.study, PLAIN) == PLAIN}
    uses = {
        home[start]: one.study
        for one in studies
        for run in one.runs
        for start in run.inputs.values()
        if home.get(start, one.study) != one.study
    }
    found = {}
    for name in uses:
        last = name
        for _ in uses:
            last = uses.get(last, last)
        if last not in uses:  # no circle
            found[name] = last
    return found


def in_order(studies: Sequence[Tables], serves: Mapping[str, str]) -> list[Tables]:
    """Return each study that asks a question, followed by the studies that serve it."""
    places = {one.study: place for place, one in enumerate(studies)}
    return sorted(studies, key=lambda one: (places[serves.get(one.study, one.study)], one.study in serves))
