"""Collect what the page shows of studies and comparisons, and of their kinds."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from isoscope.base.kind import Kind, kind
from isoscope.base.metric import Metric
from isoscope.base.paths import FIGURES, TABLES, trained
from isoscope.platform.config.comparing import Comparison
from isoscope.platform.config.declared import title
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.figures import numbers
from isoscope.platform.report.drawing import by_question, numbered, read_drawings, read_rows, reading
from isoscope.platform.report.overview import few, finding, overview
from isoscope.platform.report.runs import SHORT, RunRow, made_of
from isoscope.platform.report.sentences import of_figures, sentence
from isoscope.platform.results.paired_comparison import ArmRow
from isoscope.platform.results.published import of_kind, published
from isoscope.platform.results.study_tables import Tables, read_tables
from isoscope.platform.runs.output_files import CONFIG


def environment() -> Environment:
    """Return where templates of pages are found and rendered, with how they write numbers."""
    found = Environment(
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
        found.filters[function.__name__] = function
    found.filters |= {"title_of": title, "origin": Markup(' data-from="{}"').format}
    found.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return found


def show_kind(name: str, tables: Tables, folder: Path, *, key: str, chapter: int, command: str) -> dict[str, Any]:
    """Return what the template needs of the kind of a study or comparison.

    `folder`: where the stage `command` wrote. `key` makes ids unique; figures have numbers of the `chapter`. Raises
    `InputError` for missing or damaged files.
    """
    own = kind(name)
    with reading(folder, command):
        found = read_drawings(name, tables.by_name, folder / FIGURES, key=key)
        tested = [
            (caption, read_rows(folder / TABLES / f"{table}.parquet"), table) for table, caption in own.tested.items()
        ]
        known = of_kind(own, tables.by_name)
        extra = _section(own, folder / TABLES, key)
    drawings = numbered(found, chapter)
    claims = own.claims(tables.by_name, confidence=tables.confidence, margin=tables.margin)
    inner = [sentence(claim, f"{tables.study}/{','.join(own.tested)}") for claim in claims]
    inner += of_figures(drawings, tables.study)
    questions = by_question(drawings)
    plain = questions[: bool(questions) and not questions[0][0]]
    return {
        "question": own.question,
        "figures": drawings,
        "first": next((one for one in drawings if one.picture), None),
        "plain": plain,  # figures that belong to no question
        "questions": questions[len(plain) :],
        "inner": inner,
        "answer": f"{inner[0]['what']}: {inner[0]['value']}." if inner else "",
        "published": known if known and known.cells else None,
        "source": published(own.folder).get("source"),
        "remade": f"{tables.study}/{published(own.folder).get('table')}",
        "tested": tested,
        "extra": extra,
        "script": own.script if extra else None,
    }


def _section(own: Kind, folder: Path, key: str) -> Markup:
    """Return the kind's own section, rendered with the data that its tables have for it; empty if it has none."""
    data = {file.stem: json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("*.json"))}
    if own.section is None or not data:
        return Markup()
    return Markup('<div data-from="{}/{}">\n{}\n</div>').format(
        folder.parent.name, ",".join(data), Markup(environment().from_string(own.section).render(key=key, **data))
    )


def show(tables: Tables, rows: Sequence[RunRow], *, kind: str, folder: Path, chapter: int) -> dict[str, Any]:
    """Return what the template needs of a study. Figures have numbers of the `chapter`.

    `folder`: where `isoscope analyse` wrote. Raises `InputError` for missing or damaged files.
    """
    key = f"study-{tables.study}"
    arms = list(dict.fromkeys(run.arm for run in tables.runs))
    metrics: dict[str, list[ArmRow]] = {}
    declared, digits = tables.metrics, {}
    for row in tables.comparison:
        called = title(row.metric, declared)
        metrics.setdefault(called, []).append(row)
        digits[called] = declared.get(row.metric, Metric(row.metric)).digits
    part = show_kind(kind, tables, folder, key=key, chapter=chapter, command="analyse")
    return {
        "key": key,
        "tables": tables,
        "arms": arms,
        "reference": arms[0] if arms else numbers.NOTHING,
        "tested": max((row.items for row in tables.comparison), default=0),
        "part": part,
        "headings": [
            ("Which differences hold?", f"{key}-differences"),
            *((question, f"{key}-{place}") for place, (question, _) in enumerate(part["questions"], start=1)),
        ],
        "overview": overview(tables),
        "wide": len(arms) > 2,  # a figure of all arms needs more than a row of the page
        "findings": [finding(row, tables) for row in tables.comparison if row.verdict and not few(row)],
        "few": sum(row.verdict is not None and few(row) for row in tables.comparison),
        "metrics": metrics,
        "digits": digits,
        **made_of(rows, [run.inputs for run in tables.runs]),
    }


def show_comparison(
    name: str,
    section: Comparison,
    folder: Path,
    *,
    rows: Mapping[str, Sequence[RunRow]],
    chapter: int,
) -> dict[str, Any]:
    """Return everything the template needs of a comparison.

    `rows`: study → its runs, of which the page names those that were read. Figures have numbers of the `chapter`.
    `folder`: where `isoscope compare` wrote. Raises `InputError` for missing or damaged files.
    """
    key, command = f"comparison-{name}", f"compare {name}"
    tables = read_tables(folder)
    with reading(folder, command):
        run = read_yaml(folder, Path(CONFIG))
    folders = {Path(*Path(path).parts[:4]) for path in run["inputs"]}
    read = {
        study: [
            row
            for row in rows[study]
            if section.shows(study, row["run"].arm) and trained(study, row["run"].arm, row["run"].seed) in folders
        ]
        for study in section.compared
    }
    return {
        "name": name,
        "key": key,
        "tables": tables,
        "part": show_kind(section.kind, tables, folder, key=key, chapter=chapter, command=command),
        "studies": [(study, len(of), len(rows[study])) for study, of in read.items()],
        "digest": str(run["digest"])[:SHORT],
        **made_of([row for of in read.values() for row in of], [run["inputs"]]),
    }
