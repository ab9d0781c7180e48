"""Render the report: one HTML file, with large tables of figures as CSV files next to it."""

import json
from collections.abc import Mapping, Sequence
from gzip import decompress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from isoscope import __version__
from isoscope.base.built_in import PLAIN
from isoscope.base.errors import InputError
from isoscope.base.kind import kind
from isoscope.platform.config.comparing import Comparison
from isoscope.platform.config.declared import title
from isoscope.platform.figures import numbers
from isoscope.platform.report.comparison_section import show_comparison
from isoscope.platform.report.order import in_order, serving
from isoscope.platform.report.run_settings import settings
from isoscope.platform.report.runs import by_arm, plugins, run_row, server
from isoscope.platform.report.search_section import read_search
from isoscope.platform.report.study_section import show
from isoscope.platform.results.published import papers
from isoscope.platform.results.study_tables import Tables
from isoscope.platform.runs.lines import RunRecord

SPLITS = ("train", "validation", "test")
GENERATED = "embedded"
"""Kind of the source of generated text."""


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
    - `search`: where `isoscope search` wrote its results; a search without trials has no section.

    Raises `InputError` if a manifest lacks what the page shows, or for damaged files.
    """
    serves = serving(studies, kinds)
    studies = in_order(studies, serves)
    rows = {
        study.study: [
            run_row(run, records.get(run.digest), tracking_uri=tracking_uri, experiment=experiments.get(study.study))
            for run in study.runs
        ]
        for study in studies
    }
    every = [row for part in rows.values() for row in part]
    keys = {study.study: f"study-{study.study}" for study in studies}
    shown = [
        show(study, rows[name], kind=kinds.get(name, PLAIN), key=keys[name], folder=folders[name], chapter=chapter)
        for chapter, (name, study) in enumerate(((study.study, study) for study in studies), start=1)
    ]
    compared = [
        show_comparison(name, section, folders[name], keys=keys, rows=rows, chapter=chapter)
        for chapter, (name, section) in enumerate(comparisons.items(), start=len(studies) + 1)
    ]
    for study in shown:
        study["settings"] = settings(study["tables"].runs, records)
        study["lacks"] = lacks.get(study["tables"].study, ())
        study["serves"] = serves.get(study["tables"].study)
        study["about"] = abouts.get(study["tables"].study)
        study["text"] = text_of(study["tables"], manifests)
        study["by_arm"] = by_arm(tracking_uri, experiments.get(study["tables"].study))
    found = search and read_search(
        search,
        tracking_uri=tracking_uri,
        experiments=experiments,
        chapter=len(studies) + len(comparisons) + 1,
        studies={run.digest: study.study for study in studies for run in study.runs},
    )
    figures = [one for part in (*shown, *compared) for one in part["part"]["figures"]] + (
        found["drawings"] if found else []
    )
    shown_kinds = dict.fromkeys([PLAIN, *kinds.values(), *(one.kind for one in comparisons.values())])
    template = environment().get_template("page.html")
    html = template.render(
        title=title,
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
    return Page(html, files)


def environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("isoscope.platform.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for function in (
        *(numbers.count, numbers.duration, numbers.interval),
        *(numbers.probability, numbers.score, numbers.short, numbers.signed, numbers.spread),
    ):
        environment.filters[function.__name__] = function
    environment.filters["title_of"] = title
    return environment


def task(name: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task's name, facts, splits and baselines, ready to print.

    Raises `InputError` if the manifest lacks any of them.
    """
    try:
        facts = {
            str(key).replace("_", " ").capitalize(): _design(value) if key == "design" else _text(value)
            for key, value in manifest["facts"].items()
        }
        shared = [f"{pair} {n:,}" for pair, n in manifest["shared"].items()]
        about = {
            "Source": str(manifest["source"]),
            "Licence": str(manifest["licence"]),
            "Revision": str(manifest["revision"] or "none"),
            "Classes": ", ".join(map(str, manifest["labels"])) or "none: a text task",
            "Texts in two splits": "; ".join(shared),
            **facts,
        }
        splits = [_split(part, manifest["splits"][part], manifest["files"]) for part in SPLITS]
        called = kind(PLAIN).baselines
        tests = {called.get(key, key): found["test"] for key, found in manifest["baselines"].items()}
        baselines = [row for one, found in tests.items() for row in _baseline(one, found)]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"manifest of {name}: {error} is missing or malformed; prepare the task again") from None
    return {"name": name, "about": about, "splits": splits, "baselines": baselines}


def text_of(tables: Tables, manifests: Mapping[str, Mapping[str, Any]]) -> str:
    """Return where the text of a study is from, in a sentence."""
    if not tables.runs:
        return ""
    name = tables.runs[0].task
    source, facts = str(manifests[name]["source"]), manifests[name]["facts"]
    made, _, where = source.partition(":")
    if made != GENERATED:
        return f"Text of {name}: {where or source}."
    said = f"Text of {name}: generated by rules ({where}), not natural language"
    return f"{said}; its difficulty was set for {_design(facts['design'])}." if "design" in facts else f"{said}."


def _design(bands: Mapping[str, Any]) -> str:
    """Return which scores generated text was designed for."""
    parts = [
        f"{name.replace('_', ' ')} {' and '.join(map(str, found)) if isinstance(found, list) else found}"
        for name, found in bands.items()
        if name != "of"
    ]
    return f"{bands['of']}: {', '.join(parts)}"


def _baseline(name: str, found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return name and value on the test split: a classifier's first score, else the loss by text column."""
    if "n" in found:
        first = next(one for one in found if one != "n")
        return [(f"{name}, test {first}", f"{found[first]:.3f} (n = {found['n']:,})")]
    return [
        (f"{name}, {column}, test loss", f"{one['loss']:.3f} nats per token (n = {one['n']:,})")
        for column, one in found.items()
    ]


def _split(name: str, found: Mapping[str, Any], files: Mapping[str, Any]) -> dict[str, str]:
    rows = int(found["rows"])
    return {
        "name": name,
        "rows": numbers.count(rows, "row"),
        "balance": ", ".join(f"{label} {n:,} ({n / rows:.1%})" for label, n in found["labels"].items())
        or numbers.NOTHING,
        "words": _lengths(found["words"]),
        "tokens": _lengths(found["tokens"]) if "tokens" in found else numbers.NOTHING,
        "duplicates": f"{found['duplicates']:,}",
        "sha256": str(files[f"{name}.parquet"]["sha256"]),
    }


def _lengths(found: Mapping[str, Any]) -> str:
    return f"{found['min']:g} / {found['q50']:g} / {found['q95']:g} / {found['max']:g}"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{str(key).replace('_', ' ')}: {_text(one)}" for key, one in value.items())
    if isinstance(value, list):
        return " to ".join(map(_text, value)) if len(value) == 2 else ", ".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
