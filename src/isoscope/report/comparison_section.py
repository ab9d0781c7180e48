"""Collect what the page shows of a comparison of studies: its figures, and the studies whose runs it read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isoscope.paths import COMPARED, RESULTS
from isoscope.report.drawing import read_drawings, reading
from isoscope.studies.comparisons import VIEWS
from isoscope.studies.view import StoredTables


def show_comparison(name: str, studies: Sequence[str], folder: Path, *, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return everything the template needs of a comparison of `studies`. `keys`: study → id of its section.

    `folder`: where `isoscope compare` wrote. Raises `InputError` for missing or damaged files.
    """
    key = f"comparison-{name}"
    with reading(folder, f"compare {name}"):
        drawings = read_drawings(VIEWS, StoredTables(folder / COMPARED), folder / RESULTS, key=key)
    return {"name": name, "key": key, "drawings": drawings, "studies": [(study, keys[study]) for study in studies]}
