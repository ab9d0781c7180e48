"""Kinds of study: what they add to the stage `analyse`, the report and the notebook, and their published results.

A kind makes tables only of the runs that it applies to. To add a kind, add it to `KINDS`: no stage, no section of the
report and no other kind changes. A kind with published numbers has a `published.yaml`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pandas as pd

from isoscope.base.errors import InputError
from isoscope.base.paths import CHART
from isoscope.platform.config.project import Cell, Study
from isoscope.studies import dynamics, isotropy
from isoscope.studies.arms import Arms
from isoscope.studies.fusion import remedies
from isoscope.studies.published import Reproduced, published
from isoscope.studies.published import reproduced as reproduced_rows
from isoscope.studies.tables import read_tables
from isoscope.studies.view import StoredTables, Tables, View


class Kind(NamedTuple):
    """A kind of study in `analyse`."""

    tables: Callable[..., Mapping[str, pd.DataFrame]]
    """`tables(arms, manifest=…, confidence=…, power=…, margin=…)` returns tables by name, none if it does not apply."""
    views: tuple[View, ...]
    """The figures of these tables, in the report's order."""
    files: tuple[str, ...] = ()
    """Files in a run's output that the tables read where they exist."""


KINDS = (Kind(remedies.remedies, remedies.VIEWS), Kind(dynamics.tables, dynamics.VIEWS, dynamics.FILES))
VIEWS = tuple(view for kind in KINDS for view in kind.views)
FILES = tuple(name for kind in KINDS for name in kind.files)


def added_tables(
    arms: Arms, *, manifest: Mapping[str, Any], confidence: float, power: float, margin: float
) -> dict[str, pd.DataFrame]:
    """Return the tables of all kinds by name. `manifest`: of the study's task."""
    settings = {"confidence": confidence, "power": power, "margin": margin}
    return {name: table for kind in KINDS for name, table in kind.tables(arms, manifest=manifest, **settings).items()}


def reproduced(study: Study, cells: Sequence[Cell], folder: Path) -> list[Reproduced]:
    """Return the comparisons of a study with published numbers. `cells`: its arms; `folder`: `reports/parts/<study>`.

    Raises `InputError` that names the command that makes a missing comparison.
    """
    found = []
    if study.looked_at("chart").seeds:
        found.append(compared_with(isotropy, StoredTables(folder / CHART), f"chart {folder.name}"))
    if study.seeds and any(cell.training.allocation for cell in cells):
        found.append(compared_with(dynamics, read_tables(folder).by_name, f"analyse {folder.name}"))
    return found


def compared_with(kind: ModuleType, tables: Tables, command: str) -> Reproduced:
    """Return the comparison of a kind's tables with its published numbers; `command` makes the tables."""
    known = published(Path(str(kind.__file__)).parent)
    rows = tables[known["table"]] if known["table"] in tables else pd.DataFrame()
    if not tables or (len(rows) and "verdict" not in rows):
        raise InputError(f"table {known['table']}: missing, or of an earlier version; run: isoscope {command}")
    return reproduced_rows(rows.to_dict("records"), known)
