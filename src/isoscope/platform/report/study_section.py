"""Collect what the page shows of a study: figures with their origin, findings, the table of arms, and its analyses."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from isoscope.base.paths import CHART, CHARTS, FIGURES, INSIDE, RESULTS
from isoscope.platform.figures.titles import title
from isoscope.platform.report import numbers
from isoscope.platform.report.drawing import by_question, numbered, read_drawings, read_rows, reading
from isoscope.platform.report.overview import few, finding, overview
from isoscope.platform.report.runs import RunRow, made_of
from isoscope.platform.report.sentences import of_figures
from isoscope.studies import fusion, registry, scored
from isoscope.studies.arms import ArmRow
from isoscope.studies.isotropy import VIEWS
from isoscope.studies.isotropy.reproduction import PUBLISHED
from isoscope.studies.tables import Tables
from isoscope.studies.view import StoredTables


def read_chart(folder: Path, *, key: str) -> dict[str, Any] | None:
    """Read what `isoscope chart` wrote. Return None if it has not run, or if the study has no seeds.

    `drawings` in order, `cells` (published and own values), `note` (if anything was published), and
    `differences` and `equal` (at matched effect) between arms. `key` makes ids unique on the page. Raises `InputError`
    for damaged files.
    """
    tables, figures = folder / CHART, folder / CHARTS
    if not (tables / "published.parquet").is_file():
        return None
    with reading(tables, "chart"):
        cells = read_rows(tables / "published.parquet")
        paths = {name: tables / f"{name}.parquet" for name in ("differences", "equal")}
        rows = {name: read_rows(path) if path.is_file() else [] for name, path in paths.items()}
        drawings = read_drawings(VIEWS, StoredTables(tables), figures, key=key)
    known = any(cell["published"] is not None for cell in cells)
    note = PUBLISHED["notes"]["published"] if known else ""
    return {"drawings": drawings, "cells": cells, "note": note, **rows} if drawings or cells else None


def read_inside(folder: Path, *, key: str) -> dict[str, Any] | None:
    """Read what `isoscope explore` wrote into a study's folder. Return None if it has not run.

    `drawings` in order, `phases` of every run, `differences` between arms, and the data of the `explorer` as JSON safe
    in HTML. `key` makes ids unique on the page. Raises `InputError` for damaged files.
    """
    tables, figures = folder / INSIDE, folder / FIGURES
    if not (tables / "explorer.json").is_file():
        return None
    with reading(folder, "explore"):
        phases = json.loads((tables / "phases.json").read_text("utf-8"))
        explorer = json.dumps(json.loads((tables / "explorer.json").read_text("utf-8")), separators=(",", ":"))
        differences = read_rows(tables / "differences.parquet")
        drawings = read_drawings(fusion.VIEWS, StoredTables(tables), figures, key=key)
    inert = explorer.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return {"drawings": drawings, "phases": phases, "differences": differences, "explorer": Markup(inert)}


def show(tables: Tables, rows: Sequence[RunRow], *, key: str, folder: Path, chapter: int) -> dict[str, Any]:
    """Return everything the template needs of a study. `key` makes ids unique; figures have numbers of the `chapter`.

    `folder`: where `isoscope analyse` wrote its figures; those of `isoscope explore` and `isoscope chart` are optional.
    Raises `InputError` for missing or damaged files.
    """
    arms = list(dict.fromkeys(run.arm for run in tables.runs))
    metrics: dict[str, list[ArmRow]] = {}
    names = [row.metric for row in tables.comparison]
    for row in tables.comparison:
        metrics.setdefault(title(row.metric, names), []).append(row)
    with reading(folder, "analyse"):
        drawings = read_drawings((*scored.VIEWS, *registry.VIEWS), tables.by_name, folder / RESULTS, key=key)
    drawings = numbered(drawings, chapter)
    chart, inside = read_chart(folder, key=f"{key}-chart"), read_inside(folder, key=key)
    figures, after = [*drawings], len(drawings)
    for part in (chart, inside):
        if part:
            some = numbered(part.pop("drawings"), chapter, after)
            part["questions"], after = by_question(some), after + len(some)
            figures += some
    return {
        "key": key,
        "tables": tables,
        "arms": arms,
        "reference": arms[0] if arms else numbers.NOTHING,
        "tested": max((row.items for row in tables.comparison), default=0),
        "questions": by_question(drawings),
        "headings": [
            ("Which differences hold?", f"{key}-differences"),
            *_headings(by_question(drawings), key),
            *_headings(chart["questions"] if chart else [], f"{key}-chart"),
            *_headings(inside["questions"] if inside else [], f"{key}-inside"),
        ],
        "figures": figures,
        "first": drawings[0] if drawings else None,
        "overview": overview(tables),
        "inner": of_figures(figures),
        "wide": len(arms) > 2,  # a figure of all arms needs more than a row of the page
        "findings": [finding(row, tables) for row in tables.comparison if row.verdict and not few(row)],
        "few": sum(row.verdict is not None and few(row) for row in tables.comparison),
        "metrics": metrics,
        **made_of(rows, [run.inputs for run in tables.runs]),
        "inside": inside,
        "chart": chart,
    }


def _headings(questions: Sequence[tuple[str, Any]], key: str) -> list[tuple[str, str]]:
    """Return the headings of a part, with their ids on the page."""
    return [(question, f"{key}-{place}") for place, (question, _) in enumerate(questions, start=1) if question]
