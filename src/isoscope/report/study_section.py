"""Collect what the page shows of a study: figures with their origin, findings, the table of arms, and its analyses."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from markupsafe import Markup

from isoscope.paths import CHART, CHARTS, FIGURES, INSIDE, RESULTS
from isoscope.report import numbers
from isoscope.report.drawing import Drawing, read_drawings, reading, without_nan
from isoscope.report.numbers import called
from isoscope.report.runs import RunRow
from isoscope.studies import fusion, scored
from isoscope.studies.comparison import Comparison
from isoscope.studies.isotropy import VIEWS
from isoscope.studies.isotropy.reproduction import FILE, TABLE_2, Cell, read
from isoscope.studies.tables import Tables
from isoscope.studies.view import StoredTables


class Chart(NamedTuple):
    """Figures in order, published and own values, differences between arms."""

    drawings: list[Drawing]
    cells: list[Cell]
    differences: list[dict[str, Any]]
    equal: list[dict[str, Any]]
    """Matched-effect comparison: differences between penalties, each interpolated along its own weights."""

    @property
    def table_2(self) -> str:
        """The note on Table 2 of the paper; empty if nothing was published for this study."""
        return TABLE_2 if any(cell.published is not None for cell in self.cells) else ""


def read_chart(folder: Path, *, key: str) -> Chart | None:
    """Read what `isoscope chart` wrote. Return None if it has not run, or if the study has no seeds.

    `key` makes ids unique on the page. Raises `InputError` for damaged files.
    """
    tables, figures = folder / CHART, folder / CHARTS
    if not (tables / FILE).is_file():
        return None
    with reading(tables, "chart"):
        cells = read(tables)
        differences, equal = (_rows(tables / f"{table}.parquet") for table in ("differences", "equal"))
        drawings = [*read_drawings(VIEWS, StoredTables(tables), figures, key=key).values()]
    return Chart(drawings, cells, differences, equal) if drawings or cells else None


def _rows(path: Path) -> list[dict[str, Any]]:
    return [without_nan(row) for row in pq.read_table(path).to_pylist()] if path.is_file() else []


class Inside(NamedTuple):
    """Figures in order, phases of every run, differences between arms, and the explorer's data as JSON safe in HTML."""

    drawings: list[Drawing]
    phases: list[dict[str, Any]]
    differences: list[dict[str, Any]]
    explorer: Markup


def read_inside(folder: Path, *, key: str) -> Inside | None:
    """Read what `isoscope explore` wrote into a study's folder. Return None if it has not run.

    `key` makes ids unique on the page. Raises `InputError` for damaged files.
    """
    tables, figures = folder / INSIDE, folder / FIGURES
    if not (tables / "explorer.json").is_file():
        return None
    with reading(folder, "explore"):
        phases = json.loads((tables / "phases.json").read_text("utf-8"))
        explorer = json.dumps(json.loads((tables / "explorer.json").read_text("utf-8")), separators=(",", ":"))
        differences = [without_nan(row) for row in pq.read_table(tables / "differences.parquet").to_pylist()]
        shown = read_drawings(fusion.VIEWS, StoredTables(tables), figures, key=key)
    inert = explorer.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Inside([*shown.values()], phases, differences, Markup(inert))


class Finding(NamedTuple):
    """The verdict on one arm, one metric."""

    word: str
    text: str


class Study(NamedTuple):
    """What the template shows of one study."""

    key: str
    tables: Tables
    rows: Sequence[RunRow]
    arms: Sequence[str]
    reference: str
    items: int
    drawings: Sequence[Drawing]
    findings: Sequence[Finding]
    metrics: Mapping[str, Sequence[Comparison]]
    commits: Sequence[str]
    unknown_commit: bool
    data: Mapping[str, str]
    inside: Inside | None
    chart: Chart | None

    @property
    def wide(self) -> bool:
        """Whether a figure of all arms needs more than a row of the page."""
        return len(self.arms) > 2


def show(tables: Tables, rows: Sequence[RunRow], *, position: int, folder: Path) -> Study:
    """Return everything the template needs of a study. `position` counts studies from 1 and makes ids unique.

    `folder`: where `isoscope analyse` wrote its figures; those of `isoscope explore` and `isoscope chart` are optional.
    Raises `InputError` for missing or damaged files.
    """
    key = f"study-{position}"
    arms = list(dict.fromkeys(run.arm for run in tables.runs))
    metrics = {called(name): rows for name, rows in _by_metric(tables.comparison).items()}
    with reading(folder, "analyse"):
        drawings = read_drawings(scored.VIEWS, tables.by_name, folder / RESULTS, key=key)
    return Study(
        key=key,
        tables=tables,
        rows=rows,
        arms=arms,
        reference=arms[0] if arms else numbers.NOTHING,
        items=max((row.items for row in tables.comparison), default=0),
        drawings=[*drawings.values()],
        findings=_findings(tables),
        metrics=metrics,
        commits=sorted({_commit(row) for row in rows if row.commit}),
        unknown_commit=any(row.commit is None for row in rows),
        data={path: md5 for run in tables.runs for path, md5 in run.inputs.items()},
        inside=read_inside(folder, key=key),
        chart=read_chart(folder, key=f"{key}-chart"),
    )


def _by_metric(rows: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    found: dict[str, list[Comparison]] = {}
    for row in rows:
        found.setdefault(row.metric, []).append(row)
    return found


def _commit(row: RunRow) -> str:
    return f"{(row.commit or '')[:10]}{' with changes' if row.dirty else ''}"


def _findings(tables: Tables) -> list[Finding]:
    """Return a sentence for each arm and metric: its difference from the reference arm."""
    found = []
    reference = {(row.metric): row for row in tables.comparison if row.kind == "reference"}
    for row in tables.comparison:
        if row.verdict is None:
            continue
        base = reference[row.metric]
        numeral = numbers.signed(row.difference) if row.difference is not None else "no common seed"
        if row.paired and row.paired.interval:
            numeral += f" {numbers.interval(row.paired.interval)}"
        pairs = numbers.count(len(row.paired_seeds), "paired seed")
        effect = f"; detectable {numbers.score(row.detectable)}" if row.detectable is not None else ""
        text = f"{row.arm} against {base.arm}, {called(row.metric)}: {numeral} ({pairs}{effect}): {row.verdict.reason}."
        found.append(Finding(row.verdict.word, text))
    return found
