"""Kinds of study: what they add to the stage `analyse`, the report and the notebook, and their published results.

A kind makes tables only of the runs that it applies to. To add a kind, add it to `KINDS`: no stage, no section of the
report and no other kind changes. A kind with published results is in `REPRODUCIBLE`, for `isoscope reproduce`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from isoscope.platform.config.project import Cell, Study
from isoscope.studies import dynamics
from isoscope.studies.arms import Arms
from isoscope.studies.dynamics import published_ranks
from isoscope.studies.fusion import remedies
from isoscope.studies.isotropy import reproduction
from isoscope.studies.published import Reproduced
from isoscope.studies.view import View


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
REPRODUCIBLE = (reproduction.REPRODUCIBLE, published_ranks.REPRODUCIBLE)


def added_tables(
    arms: Arms, *, manifest: Mapping[str, Any], confidence: float, power: float, margin: float
) -> dict[str, pd.DataFrame]:
    """Return the tables of all kinds by name. `manifest`: of the study's task."""
    settings = {"confidence": confidence, "power": power, "margin": margin}
    return {name: table for kind in KINDS for name, table in kind.tables(arms, manifest=manifest, **settings).items()}


def reproduced(study: Study, cells: Sequence[Cell], folder: Path) -> list[Reproduced]:
    """Return the comparisons of a study with published results. `cells`: its arms; `folder`: `reports/parts/<study>`.

    Raises `InputError` that names the command that makes a missing comparison.
    """
    return [kind.read(folder) for kind in REPRODUCIBLE if kind.applies(study, cells)]
