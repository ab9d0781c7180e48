"""Collect what the page shows of a comparison of studies: its figures, and where they come from."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isoscope.base.paths import COMPARED, RESULTS, trained
from isoscope.platform.config.comparing import Comparison
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.report.drawing import by_question, numbered, read_drawings, reading
from isoscope.platform.report.runs import SHORT, RunRow, made_of
from isoscope.platform.report.sentences import of_figures
from isoscope.platform.runs.restored import CONFIG
from isoscope.studies.comparisons import COMPARISONS
from isoscope.studies.view import StoredTables


def show_comparison(
    name: str,
    section: Comparison,
    folder: Path,
    *,
    keys: Mapping[str, str],
    rows: Mapping[str, Sequence[RunRow]],
    chapter: int,
) -> dict[str, Any]:
    """Return everything the template needs of a comparison.

    `keys`: study → id of its section on the page. `rows`: study → its runs, of which the page names those that were
    read.

    Figures have numbers of the `chapter`. `folder`: where `isoscope compare` wrote. Raises `InputError` for missing or
    damaged files.
    """
    key, kind, tables = f"comparison-{name}", COMPARISONS[section.kind], folder / COMPARED
    run = read_yaml(tables, Path(CONFIG))
    folders = {Path(*Path(path).parts[:4]) for path in run["inputs"]}
    read = {
        study: [
            row
            for row in rows[study]
            if section.shows(study, row["run"].arm) and trained(study, row["run"].arm, row["run"].seed) in folders
        ]
        for study in section.compared
    }
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
            "studies": [(study, keys[study], len(of), len(rows[study])) for study, of in read.items()],
            "digest": str(run["digest"])[:SHORT],
            **made_of([row for of in read.values() for row in of], [run["inputs"]]),
        }
