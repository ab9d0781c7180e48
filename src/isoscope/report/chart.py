"""A study's arms over training, as the page shows them: published figures beside ours, differences, curves."""

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from isoscope.analysis.reproduction import FILE, TABLE_2, Cell, read
from isoscope.errors import InputError
from isoscope.paths import CHART, CHARTS
from isoscope.report.drawing import Drawing, without_nan
from isoscope.report.svg import inline

CAPTIONS = {
    "anisotropy": "Anisotropy of each batch's [CLS] vectors over training: mean over seeds, band ± 1 sd.",
    "task": "The task's metrics on the whole validation split over training.",
    "penalty": "The penalty over training: its value, the norm of its gradient by the points, and what was kept.",
    "explained": "What may raise the share of the first direction, on a fixed validation sample: classes, clusters.",
    "bars": "Bars of H0 within classes, on the same sample.",
    "trade-a_1": "What anisotropy costs: validation accuracy against a₁, each run and each arm's mean ± 1 sd.",
    "trade-a_1_centred": "The same with the mean removed.",
    "fractions": "The end of training by the share of the train split: mean over seeds, band ± 1 sd.",
}


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
    try:
        cells = read(tables)
        differences, equal = (_rows(tables / f"{table}.parquet") for table in ("differences", "equal"))
        drawings = []
        for name, text in CAPTIONS.items():
            if (path := figures / f"{name}.svg").is_file():
                svg = path.read_text("utf-8")
                drawings.append(Drawing(inline(svg, key=f"{key}-{name}", title=text, description=text), text))
    except (ValueError, OSError, pa.ArrowException) as error:
        raise InputError(f"{tables}: not what isoscope chart left ({error}); run: isoscope repro") from None
    return Chart(drawings, cells, differences, equal) if drawings or cells else None


def _rows(path: Path) -> list[dict[str, Any]]:
    return [without_nan(row) for row in pq.read_table(path).to_pylist()] if path.is_file() else []
