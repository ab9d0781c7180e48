"""Collect what the page shows of a study: the table of arms with findings, and what its kind adds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isoscope.base.metric import Metric
from isoscope.platform.config.declared import title
from isoscope.platform.figures import numbers
from isoscope.platform.report.kind_section import show_kind
from isoscope.platform.report.overview import few, finding, overview
from isoscope.platform.report.runs import RunRow, made_of
from isoscope.platform.results.paired_comparison import ArmRow
from isoscope.platform.results.study_tables import Tables


def show(tables: Tables, rows: Sequence[RunRow], *, kind: str, key: str, folder: Path, chapter: int) -> dict[str, Any]:
    """Return everything the template needs of a study. `key` makes ids unique; figures have numbers of the `chapter`.

    `folder`: where `isoscope analyse` wrote. Raises `InputError` for missing or damaged files.
    """
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
