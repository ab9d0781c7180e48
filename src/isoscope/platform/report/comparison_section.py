"""Collect what the page shows of a comparison of studies: its figures, and where they come from."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isoscope.base.paths import trained
from isoscope.platform.config.comparing import Comparison
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.report.drawing import reading
from isoscope.platform.report.kind_section import show_kind
from isoscope.platform.report.runs import SHORT, RunRow, made_of
from isoscope.platform.results.study_tables import read_tables
from isoscope.platform.runs.restored import CONFIG


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
    key, command = f"comparison-{name}", f"compare {name}"
    tables = read_tables(folder)
    with reading(folder, command):
        run = read_yaml(folder, Path(CONFIG))
    folders = {Path(*Path(path).parts[:4]) for path in run["inputs"]}
    read = {
        study: [
            row
            for row in rows[study]
            if section.shows(study, row["run"].arm) and trained(study, row["run"].arm, row["run"].seed) in folders
        ]
        for study in section.compared
    }
    return {
        "name": name,
        "key": key,
        "tables": tables,
        "part": show_kind(section.kind, tables, folder, key=key, chapter=chapter, command=command),
        "studies": [(study, keys[study], len(of), len(rows[study])) for study, of in read.items()],
        "digest": str(run["digest"])[:SHORT],
        **made_of([row for of in read.values() for row in of], [run["inputs"]]),
    }
