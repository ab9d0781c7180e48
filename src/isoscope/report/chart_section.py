"""Read a study's training curves for the page: published and own values, differences between arms, figures."""

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from isoscope.paths import CHART, CHARTS
from isoscope.report.drawing import Drawing, read_drawings, reading, without_nan
from isoscope.studies.isotropy import VIEWS
from isoscope.studies.isotropy.reproduction import FILE, TABLE_2, Cell, read
from isoscope.studies.stored_tables import StoredTables


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
