"""A study's arms over training, as the page shows them: published figures beside ours, differences, curves."""

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from isoscope.paths import CHART, CHARTS
from isoscope.report.drawing import Drawing, read_drawings, reading, without_nan
from isoscope.studies.isotropy import VIEWS
from isoscope.studies.isotropy.reproduction import FILE, TABLE_2, Cell, read
from isoscope.studies.stored_tables import StoredTables


class Chart(NamedTuple):
    """Drawings in order, published figures beside ours, differences of arms."""

    drawings: list[Drawing]
    cells: list[Cell]
    differences: list[dict[str, Any]]
    equal: list[dict[str, Any]]
    """Differences of penalties with weights of their own, at equal effect."""

    @property
    def table_2(self) -> str:
        """What is to be said of the other published table, if there is one for this study."""
        return TABLE_2 if any(cell.published is not None for cell in self.cells) else ""


def read_chart(folder: Path, *, key: str) -> Chart | None:
    """What `isoscope chart` left; None where it has not run, or the study has no seeds. `key` makes ids unique.

    Raises `InputError` where the files are damaged.
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
