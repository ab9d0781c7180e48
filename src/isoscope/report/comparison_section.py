"""Collect what the page shows of a comparison of studies: its figures, and where they come from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isoscope.config.comparing import Comparison
from isoscope.config.tree import read_yaml
from isoscope.paths import COMPARED, RESULTS
from isoscope.report.drawing import by_question, numbered, read_drawings, reading
from isoscope.report.runs import SHORT
from isoscope.report.sentences import of_figures
from isoscope.runs.restored import CONFIG
from isoscope.studies.comparisons import COMPARISONS
from isoscope.studies.view import StoredTables


def show_comparison(
    name: str, section: Comparison, folder: Path, *, keys: Mapping[str, str], chapter: int
) -> dict[str, Any]:
    """Return everything the template needs of a comparison. `keys`: study → id of its section on the page.

    Figures have numbers of the `chapter`. `folder`: where `isoscope compare` wrote. Raises `InputError` for missing or
    damaged files.
    """
    key, kind, tables = f"comparison-{name}", COMPARISONS[section.kind], folder / COMPARED
    run = read_yaml(tables, Path(CONFIG))
    with reading(folder, f"compare {name}"):
        found = read_drawings(kind.views, StoredTables(tables), folder / RESULTS, key=key)
        drawings = numbered(found, chapter)
        return {
            "name": name,
            "key": key,
            "question": kind.question,
            "questions": by_question(drawings),
            "figures": drawings,
            "inner": of_figures(drawings),
            "first": drawings[0] if drawings else None,
            "studies": [(study, keys[study]) for study in section.compared],
            "digest": str(run["digest"])[:SHORT],
            "data": {path: md5 for path, md5 in run["inputs"].items() if path.startswith("data/")},
        }
