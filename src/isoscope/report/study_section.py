"""Collect what the page shows of a study: figures with their origin, findings, the table of arms."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from isoscope.paths import RESULTS
from isoscope.report import numbers
from isoscope.report.chart_section import Chart, read_chart
from isoscope.report.drawing import Drawing, read_drawings, reading
from isoscope.report.inside_section import Inside, read_inside
from isoscope.report.numbers import called
from isoscope.report.runs import RunRow
from isoscope.studies import scored
from isoscope.studies.comparison import Comparison
from isoscope.studies.tables import Tables


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
