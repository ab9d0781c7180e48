"""Kinds of comparison: what the stage `compare` makes of the runs of several studies, for the report and the notebook.

To add a kind, add its section to `isoscope.config.comparing`, and it to `COMPARISONS`: no stage and no section of the
report changes.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pandas as pd

from isoscope.studies.comparison import Arms
from isoscope.studies.dynamics import what_decides
from isoscope.studies.view import View


class StudyRuns(NamedTuple):
    """The finished runs of a study, and the manifest of its task."""

    arms: Arms
    manifest: Mapping[str, Any]


class ComparisonKind(NamedTuple):
    """A kind of comparison."""

    tables: Callable[..., Mapping[str, pd.DataFrame]]
    """`tables(studies, confidence=…, **options)` returns tables by name. `studies`: name → `StudyRuns`; `options`: of
    its section. Raises `InputError` if it does not apply to them.
    """
    views: tuple[View, ...]
    """The figures of these tables, in the report's order."""
    files: tuple[str, ...] = ()
    """Files in a run's output that the tables read where they exist."""


COMPARISONS = {"objective_or_data": ComparisonKind(what_decides.tables, what_decides.VIEWS, what_decides.FILES)}
VIEWS = tuple(view for kind in COMPARISONS.values() for view in kind.views)
