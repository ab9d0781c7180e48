"""What the stage `compare` computes for each kind of comparison, apart from the views, which load no model."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pandas as pd

from isoscope.studies.hybrids import hybrid_tables
from isoscope.studies.spaces import of_studies


class ComparedTables(NamedTuple):
    """The tables of a kind of comparison."""

    tables: Callable[..., Mapping[str, pd.DataFrame]]
    """`tables(studies, processed=…, over=…, confidence=…, power=…, margin=…, **options)` returns tables by name.

    `studies`: name → `StudyRuns`; `processed`: task → folder of its data; `over`: a map over processes; `options`: of
    its section. Raises `InputError` if it does not apply to them.
    """
    files: tuple[str, ...]
    """Files in a run's output that the tables read where they exist, as patterns."""


COMPARED_TABLES = {
    "spaces": ComparedTables(of_studies.tables, of_studies.FILES),
    "hybrids": ComparedTables(hybrid_tables.tables, hybrid_tables.FILES),
}
