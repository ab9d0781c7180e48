"""Read what `isoscope explore` wrote for the page: figures, phases of training, and the explorer's data."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from markupsafe import Markup

from isoscope.paths import FIGURES, INSIDE
from isoscope.report.drawing import Drawing, read_drawings, reading, without_nan
from isoscope.studies import fusion
from isoscope.studies.stored_tables import StoredTables


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
