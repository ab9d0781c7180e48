"""Kinds of comparison: what the stage `compare` makes of the runs of several studies, for the report and the notebook.

To add a kind, add its section to `isoscope.config.comparing`, and it to `COMPARISONS`; the report stays as it is.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pandas as pd

from isoscope.studies.dynamics import what_decides
from isoscope.studies.spaces import of_studies
from isoscope.studies.view import View


class ComparisonKind(NamedTuple):
    """A kind of comparison."""

    question: str
    """Heading of its section in the report."""
    tables: Callable[..., Mapping[str, pd.DataFrame]]
    """`tables(studies, processed=…, confidence=…, power=…, margin=…, **options)` returns tables by name.

    `studies`: name → `StudyRuns`; `processed`: task → folder of its data; `options`: of its section. Raises
    `InputError` if it does not apply to them.
    """
    views: tuple[View, ...]
    """The figures of these tables, in the report's order."""
    files: tuple[str, ...] = ()
    """Files in a run's output that the tables read where they exist, as patterns."""


COMPARISONS = {
    "objective_or_data": ComparisonKind(
        what_decides.QUESTION, what_decides.tables, what_decides.VIEWS, what_decides.FILES
    ),
    "spaces": ComparisonKind(of_studies.QUESTION, of_studies.tables, of_studies.VIEWS, of_studies.FILES),
}
